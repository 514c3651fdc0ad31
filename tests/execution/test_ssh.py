"""A cluster over SSH, for real: a server on loopback, machines that are all this one."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from sparsegp.errors import ClusterError
from sparsegp.execution import Part, open_runtime
from tests.execution.blocks import Tally
from tests.execution.sshd import SSHD, Server, ssh_server
from tests.processes import ROOT, environment, wait_until

pytest.importorskip("asyncssh")
pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no SSH server")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def cluster_file(folder: Path, server: Server, **more: object) -> Path:
    path = folder / "ssh.yaml"
    python = f"env PYTHONPATH={environment()['PYTHONPATH']} {sys.executable}"
    content = {
        "kind": "ssh",
        "hosts": ["127.0.0.1"],
        "workers": 2,
        "connect_options": server.options(),
        "remote_python": python,
        **more,
    }
    path.write_text(yaml.safe_dump(content))
    return path


def remote(server: Server) -> list[psutil.Process]:
    """Return what runs below the server."""
    return psutil.Process(server.process.pid).children(recursive=True)


def test_machines_over_ssh_with_a_temporary_certificate(server: Server, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, server, security="temporary")
    with open_runtime(cluster=path) as runtime:
        assert "tls://127.0.0.1" in runtime.describe()
        assert runtime.n_workers == 2
        runtime.build(Tally, [Part(k, {"index": k}) for k in range(2)])
        processes = set(runtime.map_blocks("process"))
        assert len(processes) == 2
        assert processes <= {process.pid for process in remote(server)}
        arguments = " ".join(word for process in remote(server) for word in process.cmdline())
        assert "PRIVATE KEY" not in arguments
        [folder] = set(map(Path, re.findall(r"/tmp/sparsegp-tls-\w+", arguments)))
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "key.pem").stat().st_mode & 0o077 == 0
    assert not folder.exists()
    assert wait_until(lambda: not remote(server), 20), remote(server)


DRIVER = """
import sys, time
from sparsegp.execution import open_runtime
runtime = open_runtime(cluster=sys.argv[1])
print("started", flush=True)
time.sleep(600)
"""


def test_everything_ends_when_the_driver_is_killed(server: Server, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, server)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path)], env=environment(), stdout=subprocess.PIPE
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"started\n"
        assert len(remote(server)) >= 5  # sessions, a scheduler, two nannies with a worker each
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait(10)
        driver.stdout.close()
    assert wait_until(lambda: not remote(server), 30), remote(server)


def test_unreachable_machine(server: Server, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, server, connect_options={**server.options(), "port": 9})
    with pytest.raises(ClusterError, match=r"kind ssh with 2 workers did not start .*check its"):
        open_runtime(cluster=path)


def test_remote_command_that_fails(server: Server, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, server, remote_python="/nowhere/python", seconds=10)
    with pytest.raises(ClusterError, match=r"ssh.yaml: a cluster of kind ssh"):
        open_runtime(cluster=path)
    assert wait_until(lambda: not remote(server), 20)


def test_leash() -> None:
    """A module ends when its standard input does."""
    command = [sys.executable, "-m", "sparsegp.execution.leash", "-m", "http.server", "0"]
    process = subprocess.Popen(
        [*command, "--bind", "127.0.0.1"],
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT / "cluster",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        process.stdin.write(b"more\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"Serving")
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(20) == -signal.SIGTERM
