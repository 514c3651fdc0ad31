"""TLS between driver, scheduler and workers: a certificate for all of them, and where it lies.

Whoever holds the key may join a cluster, and whoever may join can run code on it. One certificate
that signs itself serves every part, as no other authority has a say in who may join.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed

from sparsegp.errors import SettingsError

CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"


@dataclass(frozen=True)
class Certificate:
    """Three PEM files, the same for driver, scheduler and workers.

    Parameters
    ----------
    ca : Path
        Certificate of the authority that a partner's certificate must be signed by.
    cert, key : Path
        The own certificate and its key.
    """

    ca: Path
    cert: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: str | os.PathLike[str]) -> "Certificate":
        """Return the certificate in a folder that `write_certificate` filled."""
        return cls(*(Path(folder) / name for name in (CA, CERT, KEY)))

    def options(self) -> dict[str, Any]:
        """Return the parameters of `distributed.Security`."""
        roles = ("client", "scheduler", "worker")
        return {
            "require_encryption": True,
            "tls_ca_file": str(self.ca),
            **{f"tls_{role}_cert": str(self.cert) for role in roles},
            **{f"tls_{role}_key": str(self.key) for role in roles},
        }

    def security(self) -> Any:
        """Return what distributed takes.

        Raises
        ------
        SettingsError
            If a file is missing, or the three do not belong together.
        """
        for path in (self.ca, self.cert, self.key):
            if not path.is_file():
                raise SettingsError(
                    f"there is no TLS file {path}; make a folder with ca.pem, cert.pem and key.pem "
                    "by: sparsegp certificate DIR"
                )
        security: Any = distributed.Security(**self.options())  # type: ignore[no-untyped-call]
        try:
            security.get_connection_args("client")
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise SettingsError(
                f"the TLS files {self.ca}, {self.cert} and {self.key} cannot be used ({error})"
            ) from None
        return security


def write_certificate(folder: str | os.PathLike[str]) -> Certificate:
    """Make a certificate that is good for a year, readable by its owner alone.

    Raises
    ------
    SettingsError
        If the folder holds one already or cannot be written, or the package `cryptography` is
        missing.
    """
    try:
        made: Any = distributed.Security.temporary()  # type: ignore[no-untyped-call]
    except ImportError:
        raise SettingsError(
            "a certificate is made by the package cryptography; install it with: "
            "pip install 'sparsegp[tls]'"
        ) from None
    certificate = Certificate.in_folder(folder)
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, text in (
            (certificate.ca, made.tls_ca_file),
            (certificate.cert, made.tls_client_cert),
            (certificate.key, made.tls_client_key),
        ):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
    except FileExistsError as error:
        raise SettingsError(
            f"{error.filename} is there already; name another folder, or delete it"
        ) from None
    except OSError as error:
        raise SettingsError(f"cannot write {error.filename}: {error.strerror}") from None
    return certificate
