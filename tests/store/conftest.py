import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).with_name("writer.py")


class Writer:
    """Runs writers in another process and kills them."""

    def __init__(self, process):
        self.process = process

    def run(self, job, path, *, count=1, kill_after=None, die_at=None):
        """Return exit status, acknowledged steps and other lines of one writer."""
        command = {"job": job, "path": str(path), "count": count, "die_at": die_at}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        pid, acknowledged, said = None, [], []
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "dead":
                return SimpleNamespace(status=int(rest), acknowledged=acknowledged, said=said)
            if word == "ack":
                acknowledged.append(int(rest))
            elif word == "pid":
                pid = int(rest)
                if kill_after is not None:
                    time.sleep(kill_after)
                    os.kill(pid, signal.SIGKILL)
            else:
                said.append(line.strip())
        raise AssertionError("the writer's parent process ended")


@pytest.fixture(scope="session")
def writer(environment):
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield Writer(process)
        process.stdin.close()


@pytest.fixture(scope="session")
def steps():
    """`content(step)` and `check(step, stored)` of the writers."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))
