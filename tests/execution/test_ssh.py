"""A cluster over SSH, for real: a server on loopback, machines that are all this one."""

import json
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
from sparsegp.execution.base import nothing_to_replay
from sparsegp.execution.leash import found_at, listening_at
from tests.execution.blocks import Tally
from tests.execution.machines import CAN_BE, Machines, machines
from tests.execution.sshd import SSHD, Server, ssh_server
from tests.processes import ROOT, environment, wait_until

pytest.importorskip("asyncssh")
pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no SSH server")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def cluster_file(folder: Path, server: Server | Machines, **more: object) -> Path:
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


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("10.0.0.9 51234 10.0.0.5 22", "10.0.0.5"),
        ("fd00::9 51234 fd00::5 22", "fd00::5"),
        ("127.0.0.1 51234 127.0.0.1 22", ""),
        ("::1 51234 ::1 22", ""),
        ("fe80::9%eth0 51234 fe80::5%eth0 22", ""),
        ("", ""),
        ("x y z", ""),
    ],
)
def test_servers_are_where_ssh_found_the_machine(connection: str, address: str) -> None:
    assert found_at(connection) == address


@pytest.mark.parametrize("told", [{"host": "a"}, {"interface": "ib0"}, {"contact_address": "b"}])
def test_servers_that_were_told_where_are_there(told: dict[str, str]) -> None:
    one, other = {"cls": "A", "opts": {"port": 0}}, {"cls": "B", "opts": told}
    found = json.loads(listening_at("10.0.0.5", json.dumps({"0": one, "1": other})))
    assert found["0"]["opts"] == {"port": 0, "host": "10.0.0.5"}
    assert found["1"] == other
    assert json.loads(listening_at("10.0.0.5", json.dumps(one))) == found["0"]
    assert json.loads(listening_at("", json.dumps(one))) == one


@pytest.mark.slow
@pytest.mark.skipif(not CAN_BE, reason="machines need root, ip and unshare")
def test_machines_in_a_network_of_their_own(tmp_path: Path) -> None:
    """They reach each other, with TLS; one is cut off, and its block goes to the other."""
    with machines(tmp_path, 2) as two:
        path = cluster_file(tmp_path, two, hosts=two.addresses)
        with open_runtime(cluster=path) as runtime:
            assert f"tls://{two.addresses[0]}" in runtime.describe()
            runtime.build(Tally, [Part(k, {"index": k}) for k in range(2)])
            runtime.recovery = nothing_to_replay
            assert runtime.map_blocks("name") == ["block 0", "block 1"]
            two.cut_off(1)
            assert runtime.map_blocks("name") == ["block 0", "block 1"]
            assert runtime.n_workers == 1
