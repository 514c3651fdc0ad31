"""Certificates, and clusters that take only those who hold theirs."""

import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml

import sparsegp
from sparsegp.errors import ClusterError, SettingsError
from sparsegp.execution import Part, open_runtime
from sparsegp.execution.security import Certificate, write_certificate
from tests.execution.blocks import Tally
from tests.processes import dask_cluster

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return write_certificate(tmp_path_factory.mktemp("tls") / "own")


@pytest.fixture(scope="module")
def scheduler_file(
    certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    options = ["--tls-ca-file", certificate.ca, "--tls-cert", certificate.cert]
    options += ["--tls-key", certificate.key, "--protocol", "tls"]
    with dask_cluster(tmp_path_factory.mktemp("cluster"), *map(str, options)) as path:
        yield path


def address_in(path: Path) -> str:
    address: str = json.loads(path.read_text())["address"]
    return address


def test_a_certificate_is_private_and_never_overwritten(certificate: Certificate) -> None:
    folder = certificate.key.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (certificate.ca, certificate.cert, certificate.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = certificate.key.read_text()
    with pytest.raises(SettingsError, match=r"ca.pem is there already"):
        write_certificate(folder)
    assert certificate.key.read_text() == before


def test_a_run_over_tls_gives_the_bits_of_threads(
    scheduler_file: Path, certificate: Certificate, tmp_path: Path
) -> None:
    """By address, by scheduler file, and by a cluster file."""
    described = tmp_path / "cluster.yaml"
    described.write_text(
        yaml.safe_dump(
            {
                "kind": "scheduler",
                "workers": 2,
                "address": address_in(scheduler_file),
                "security": {
                    "tls_ca_file": str(certificate.ca),
                    "tls_cert": str(certificate.cert),
                    "tls_key": str(certificate.key),
                },
            }
        )
    )
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=240)
    X = rng.standard_normal((3, 4))[y] * 2 + rng.standard_normal((240, 4))
    settings = {"n_active": 20, "posterior": "active", "block_rows": 64}
    expected = sparsegp.train(X, y, threads=2, **settings)
    assert address_in(scheduler_file).startswith("tls://127.0.0.1")
    for where in (
        {"scheduler": address_in(scheduler_file), "tls": certificate.key.parent},
        {"scheduler_file": scheduler_file, "tls": certificate.key.parent},
        {"cluster": described},
    ):
        model = sparsegp.train(X, y, **where, **settings)
        np.testing.assert_array_equal(model.rows, expected.rows)
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_those_without_the_certificate_are_refused(scheduler_file: Path, tmp_path: Path) -> None:
    address = address_in(scheduler_file)
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"takes only those who hold its certificate.*no cert"):
        open_runtime(scheduler=address)
    with pytest.raises(ClusterError, match=r"no certificate \(--tls\)"):
        open_runtime(scheduler_file=scheduler_file)
    stranger = write_certificate(tmp_path / "stranger").key.parent
    with pytest.raises(ClusterError, match=r"this command holds another certificate"):
        open_runtime(scheduler=address, tls=stranger)
    plain = address.replace("tls://", "tcp://")
    with pytest.raises(ClusterError, match="no dask scheduler answered at tcp://"):
        open_runtime(scheduler=plain)
    assert time.monotonic() - begin < 150  # the limit of 30 s each, and no hang


def test_files_that_are_missing_or_wrong(certificate: Certificate, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no TLS file .*ca.pem; make a folder"):
        open_runtime(scheduler="tls://127.0.0.1:9", tls=tmp_path)
    other = write_certificate(tmp_path / "other")
    mixed = Certificate(certificate.ca, certificate.cert, other.key)
    with pytest.raises(SettingsError, match=r"cannot be used .*KEY_VALUES_MISMATCH"):
        mixed.security()
    with pytest.raises(SettingsError, match="tls goes with scheduler"):
        open_runtime(tls=tmp_path)


def test_workers_that_other_machines_reach_speak_tls(tmp_path: Path) -> None:
    """A cluster that is started here and listens beyond loopback has a certificate of its own."""
    path = tmp_path / "open.yaml"
    path.write_text("kind: local\nworkers: 1\nhost: 0.0.0.0\n")
    with open_runtime(cluster=path) as runtime:
        assert "at tls://" in runtime.describe()
        runtime.build(Tally, [Part(0, {"index": 0})])
        assert runtime.map_blocks("name") == ["block 0"]
        ports = [
            connection.laddr.port
            for connection in psutil.Process().net_connections("inet")
            if connection.status == psutil.CONN_LISTEN and connection.laddr.ip == "0.0.0.0"
        ]
        assert ports
        for port in ports:
            with pytest.raises(ClusterError, match=r"no certificate \(--tls\)"):
                open_runtime(scheduler=f"tls://127.0.0.1:{port}")
