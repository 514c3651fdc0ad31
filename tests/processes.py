"""The program in this process, and child processes that import this checkout."""

import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

import psutil
from click.testing import CliRunner, Result

import sparsegp
from sparsegp.cli.program import program
from sparsegp.settings.sparse import DEFAULT_KERNEL
from sparsegp.store import folder_of

ROOT = Path(sparsegp.__file__).parents[1]
PATIENCE = 120.0
"""Seconds that anything may take that comes in the end, on a machine that does other things too."""
KERNEL = ("--kernel", DEFAULT_KERNEL)
"""For programs that are about something else than the search for a kernel."""


def environment() -> dict[str, str]:
    """Return the environment of a child process, whose streams have their usual buffers."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    return {**os.environ, **own}


def plain_environment() -> dict[str, str]:
    """Return that environment without what programs are told about terminals."""
    told = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES"}
    return {k: v for k, v in environment().items() if k not in told and "TTY" not in k}


def invoke(*arguments: object, code: int = 0, text: str | None = None) -> Result:
    """Run the program in this process, with a text on standard input, and check its exit code."""
    result = CliRunner().invoke(program, list(map(str, arguments)), input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def told(*arguments: object) -> Any:
    (line,) = invoke(*arguments, "--json").stdout.splitlines()
    return json.loads(line)


def train_quickly(data: Path, *options: object) -> Path:
    """Train a small model on a file by the program; return its run, which is beside the file."""
    run = data.with_suffix(".run")
    invoke("train", data, "--out", run, "--n-active", 30, "--kernel", "10*rbf", *options)
    return run


def predicted(run: str | Path, data: str | Path, *options: object) -> str:
    """Return what `predict` writes about a file."""
    return invoke("predict", run, data, "--out", "-", *options).stdout


def run_python(*words: object, code: int = 0, **how: Any) -> "subprocess.CompletedProcess[str]":
    """Run Python in a process of its own to its end, and check its exit code."""
    how = {"env": environment(), "capture_output": True, "text": True, **how}
    done = subprocess.run([sys.executable, *map(str, words)], check=False, **how)
    assert done.returncode == code, done.stderr
    return done


def start_python(*words: object, **how: Any) -> "subprocess.Popen[str]":
    """Start Python in a process of its own, with its output in pipes."""
    how = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    return subprocess.Popen([sys.executable, *map(str, words)], text=True, **how)


def run_on_terminal(
    *words: object, columns: int = 100, term: str = "xterm", **how: Any
) -> tuple[int, str, str]:
    """Run Python with standard error on a terminal; return its code, output and what was shown."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    env = plain_environment() | {"TERM": term}
    child = start_python(*words, stdin=subprocess.DEVNULL, stderr=theirs, env=env, **how)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the terminal is closed when the child ends
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    output, _ = child.communicate()
    return child.returncode, output, shown.decode()


def wait_until(happened: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def checkpoints(run: str | Path) -> list[int]:
    """Return the numbers of the checkpoints of a run, in order."""
    names = folder_of(run).sizes()
    return sorted(int(name[11:19]) for name in names if name.startswith("checkpoint-"))


def worker_processes(of: int) -> list[psutil.Process]:
    """Return the worker processes below a process: those that its nannies spawned."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(of).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):  # empty once it has ended
                    found.append(child)
    return found


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def make_certificate(folder: Path) -> Path:
    """Make a certificate and a key in a new folder, as the documentation says, and return it."""
    subprocess.run(["sh", ROOT / "cluster" / "certificate.sh", folder], check=True)
    return folder
