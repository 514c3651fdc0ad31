"""An SSH server for tests: a process on a free port of loopback, with keys of its own."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import wait_until

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@dataclass(frozen=True)
class Server:
    """A running server, and what a client must say to it."""

    port: int
    known_hosts: Path
    key: Path
    process: subprocess.Popen[bytes]

    def options(self) -> dict[str, Any]:
        return {
            "port": self.port,
            "known_hosts": str(self.known_hosts),
            "client_keys": [str(self.key)],
            "config": None,
        }


@contextmanager
def ssh_server(folder: Path) -> Iterator[Server]:
    """Start a server that lets its own user in by a key."""
    assert SSHD is not None
    host_key, user_key, config = folder / "host", folder / "user", folder / "sshd_config"
    for key in (host_key, user_key):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lines = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": host_key,
        "AuthorizedKeysFile": user_key.with_suffix(".pub"),
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
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
        yield Server(port, known_hosts, user_key, process)
    finally:
        process.terminate()
        process.wait(10)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
