"""What a cluster file says, and what every kind of cluster tells about itself."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparsegp.execution.clusters import Connection
from sparsegp.execution.security import Certificate, write_certificate
from sparsegp.registry import Registry

NONE, TEMPORARY = "none", "temporary"


@dataclass(frozen=True)
class ClusterFile:
    """A cluster file that was read and checked.

    Parameters
    ----------
    path : Path
    kind : str
        Name of a `Kind`.
    workers : int
        How many there are to be.
    security : Certificate or str or None
        Files; `NONE` for no TLS; `TEMPORARY` for a certificate made for this run; or not said.
    seconds : float
        How long scheduler and workers may take to start, each.
    options : dict
        What is left: options of the kind.
    """

    path: Path
    kind: str
    workers: int
    security: Certificate | str | None = None
    seconds: float = 60.0
    options: dict[str, Any] = field(default_factory=dict)

    def certificate(
        self, stack: ExitStack, default: str, folder: str | Path | None = None
    ) -> Certificate | None:
        """Return the certificate of a cluster to be started, None for a cluster without TLS.

        Parameters
        ----------
        stack : ExitStack
            Its end deletes a temporary certificate.
        default : str
            `NONE` or `TEMPORARY`, where the file says nothing.
        folder : path, optional
            Where a temporary certificate is made, in a folder that only its owner can enter.
        """
        chosen = self.security or default
        if chosen == TEMPORARY:
            made = tempfile.TemporaryDirectory(prefix="sparsegp-tls-", dir=folder)
            return write_certificate(stack.enter_context(made))
        return chosen if isinstance(chosen, Certificate) else None


@dataclass(frozen=True)
class Kind:
    """One way to come to a cluster.

    Parameters
    ----------
    start : callable
        Starts the cluster of a file, or connects to it.
    options : mapping
        The types of the options that the file may have.
    required : tuple
        Options that must be there.
    needs : str, optional
        Package that must be installed.
    extra : str, optional
        The extra of this package that installs it.
    """

    start: Callable[[ClusterFile], Connection]
    options: Mapping[str, tuple[type, ...]]
    required: tuple[str, ...] = ()
    needs: str | None = None
    extra: str | None = None


KINDS: Registry[Kind] = Registry("kind of cluster")
