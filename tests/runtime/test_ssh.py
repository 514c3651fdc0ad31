"""A cluster over SSH, for real: a server on loopback, machines that are all this one."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import dask
import psutil
import pytest
import yaml

from sparsegp.errors import ClusterError
from sparsegp.runtime import open_runtime
from tests.processes import environment, free_port, make_certificate, start_python, wait_until
from tests.runtime.blocks import Tally, parts

pytest.importorskip("asyncssh")
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no SSH server")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start a server, with keys of its own, that lets its own user in by a key.

    Yields the process, and what a client must say.
    """
    folder = tmp_path_factory.mktemp("sshd")
    host_key, user_key, config = folder / "host", folder / "user", folder / "sshd_config"
    for key in (host_key, user_key):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    port = free_port()
    lines = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": host_key,
        "AuthorizedKeysFile": user_key.with_suffix(".pub"),
        "PidFile": "none",
        **dict.fromkeys(("UsePAM", "StrictModes", "PasswordAuthentication"), "no"),
    }
    config.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    known_hosts = folder / "known_hosts"
    public = host_key.with_suffix(".pub").read_text()
    known_hosts.write_text(f"[127.0.0.1]:{port} {public}")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where the server gives up its rights
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log)
    try:
        assert wait_until(lambda: listens(port), 10), (folder / "log").read_text()
        known = {"known_hosts": str(known_hosts), "client_keys": [str(user_key)]}
        options = {"port": port, "config": None, **known}
        yield SimpleNamespace(process=process, options=options)
    finally:
        process.terminate()
        process.wait(10)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def cluster_file(folder, server, **more):
    path = folder / "ssh.yaml"
    python = f"env PYTHONPATH={environment()['PYTHONPATH']} {sys.executable}"
    near = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    worker = {"n_workers": 2, "nthreads": 1, "memory_limit": 0, "death_timeout": 5}
    content = {
        "class": "distributed.SSHCluster",
        "workers": 2,
        "hosts": ["127.0.0.1", "127.0.0.1"],
        "connect_options": server.options,
        "remote_python": python,
        "scheduler_options": {"port": 0, "idle_timeout": "10 seconds", **near},
        "worker_options": {**worker, **near},
        **more,
    }
    path.write_text(yaml.safe_dump(content))
    return path


def remote(server):
    return psutil.Process(server.process.pid).children(recursive=True)


def test_machines_over_ssh_with_a_certificate(server, tmp_path):
    """TLS as the configuration of Dask says: it goes to the machines with the commands."""
    folder = make_certificate(tmp_path / "tls")
    files = {"ca-file": "ca.pem"}
    for role in ("scheduler", "worker", "client"):
        files |= {f"{role}.cert": "cert.pem", f"{role}.key": "key.pem"}
    tls = {f"distributed.comm.tls.{key}": str(folder / name) for key, name in files.items()}
    tls["distributed.comm.default-scheme"] = "tls"
    with (
        dask.config.set({"distributed.comm.require-encryption": True, **tls}),
        open_runtime(cluster_file(tmp_path, server)) as runtime,
    ):
        assert runtime.client.scheduler_info()["address"].startswith("tls://127.0.0.1")
        assert runtime.n_workers == 2
        runtime.build(Tally, parts(2))
        processes = set(runtime.map_blocks("process"))
        assert len(processes) == 2
        assert processes <= {process.pid for process in remote(server)}
    assert wait_until(lambda: not remote(server), 20), remote(server)


@pytest.mark.slow
def test_everything_ends_when_the_driver_is_killed(server, tmp_path):
    path = cluster_file(tmp_path, server)
    program = (
        "import sys, time; from sparsegp.runtime import open_runtime\n"
        "with open_runtime(sys.argv[1]): print('started', flush=True); time.sleep(600)"
    )
    with start_python("-c", program, path) as driver:
        try:
            assert driver.stdout.readline() == "started\n"
            assert len(remote(server)) >= 5  # sessions, a scheduler, two nannies with a worker each
        finally:
            driver.kill()
    assert wait_until(lambda: not remote(server), 60), remote(server)


@pytest.mark.parametrize("wrong", [{"port": 9}, {"remote_python": "/nowhere/python"}])
def test_what_does_not_start_is_one_line(wrong, server, tmp_path):
    if "port" in wrong:
        wrong = {"connect_options": {**server.options, **wrong}}
    path = cluster_file(tmp_path, server, **wrong, seconds=10)
    with pytest.raises(ClusterError, match="did not start"), open_runtime(path):
        pass
    assert wait_until(lambda: not remote(server), 20), remote(server)
