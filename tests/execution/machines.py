"""Machines of their own, as far as one machine can be several: network, processes, name, /tmp.

Each has an SSH server at an address of a network that leads nowhere else.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.execution.sshd import SSHD, write_keys
from tests.processes import wait_until

CAN_BE = SSHD is not None and os.getuid() == 0 and all(map(shutil.which, ("ip", "unshare")))
NET = f"10.213.{os.getpid() % 250}"
BRIDGE = f"sgp{os.getpid() % 10000}"

ENTER = """
hostname {name} && mount --make-rprivate / &&
mount -t tmpfs none /mnt && mkdir /mnt/new /mnt/work &&
mount -t overlay none -o lowerdir=/tmp,upperdir=/mnt/new,workdir=/mnt/work /tmp &&
exec {sshd} -D -e -f {config}
"""


@dataclass(frozen=True)
class Machines:
    """Running machines, and what a client must say to them."""

    addresses: list[str]
    known_hosts: Path
    key: Path

    def options(self) -> dict[str, Any]:
        return {
            "known_hosts": str(self.known_hosts),
            "client_keys": [str(self.key)],
            "config": None,
        }

    def cut_off(self, number: int) -> None:
        """Let nothing reach a machine any more, and nothing leave it."""
        run("ip", "link", "set", f"{BRIDGE}v{number}", "down")


def run(*words: object) -> None:
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


@contextmanager
def machines(folder: Path, count: int) -> Iterator[Machines]:
    """Start machines; all of them are gone in the end."""
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with ExitStack() as stack:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        stack.callback(run, "ip", "link", "del", BRIDGE)
        run("ip", "addr", "add", f"{NET}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        host_key, user_key = write_keys(folder)
        addresses = [f"{NET}.{number + 2}" for number in range(count)]
        for number, address in enumerate(addresses):
            _start(stack, folder, number, address, (host_key, user_key))
        known = folder / "known_hosts"
        public = host_key.with_suffix(".pub").read_text()
        known.write_text("".join(f"{address} {public}" for address in addresses))
        yield Machines(addresses, known, user_key)


def _start(
    stack: ExitStack, folder: Path, number: int, address: str, keys: tuple[Path, Path]
) -> None:
    name, outer, inner = f"{BRIDGE}m{number}", f"{BRIDGE}v{number}", f"{BRIDGE}e{number}"
    inside = ("ip", "netns", "exec", name)
    run("ip", "netns", "add", name)
    stack.callback(run, "ip", "netns", "del", name)
    run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
    stack.callback(subprocess.run, ["ip", "link", "del", outer], capture_output=True)
    run("ip", "link", "set", inner, "netns", name)
    run("ip", "link", "set", outer, "master", BRIDGE, "up")
    run(*inside, "ip", "addr", "add", f"{address}/24", "dev", inner)
    for device in (inner, "lo"):
        run(*inside, "ip", "link", "set", device, "up")
    config, (host_key, user_key) = folder / f"sshd{number}", keys
    config.write_text(
        f"ListenAddress {address}\nHostKey {host_key}\nAuthorizedKeysFile {user_key}.pub\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
    )
    order = ENTER.format(name=f"machine{number}", sshd=SSHD, config=config)
    shell = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (folder / f"log{number}").open("wb") as log:
        process = subprocess.Popen([*inside, *shell, "sh", "-c", order], stderr=log)
    stack.callback(process.wait, 20)
    stack.callback(process.kill)
    reach = ["ssh-keyscan", "-T", "1", address]

    def answers() -> bool:
        return bool(subprocess.run(reach, capture_output=True, check=False).stdout)

    assert wait_until(answers, 20), (folder / f"log{number}").read_text()
