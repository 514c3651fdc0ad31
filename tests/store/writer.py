"""A process that is killed: reads a JSON command a line, forks a writer for each.

Started as a script by the tests. What the writer has saved it prints as `ack <step>`.
"""

import json
import os
import resource
import signal
import sys

import numpy as np

from sparsegp.store import RunDirectory

INTERVAL = 40
RUN = {"settings": {}, "data": {}}


def content(step):
    """Return meta and arrays that follow from the step alone."""
    rng = np.random.default_rng(step)
    arrays = {
        "stub": rng.standard_normal((2000, 1 + step % 7)),
        "sites": rng.standard_normal((50, 10)).astype(np.float32),
        "active": rng.integers(0, 10**6, size=step),
        "done": np.array(step),
    }
    return {"step": step, "state": rng.bit_generator.state}, arrays


def check(step, stored):
    """Assert that a checkpoint holds the content of the step, bit for bit."""
    meta, arrays = content(step)
    assert stored.meta == meta
    assert stored.arrays.keys() == arrays.keys()
    for name, values in arrays.items():
        assert stored.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(stored.arrays[name], values)


def say(text):
    os.write(1, f"{text}\n".encode())


def die_at(number):
    """Kill this process right before its `number`-th change of the file system."""
    left = [number]

    def counted(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ("fsync", "replace", "mkdir", "unlink", "write"):
        setattr(os, name, counted(getattr(os, name)))


def save(path, count):
    run = RunDirectory(path, keep_last=2, on_warning=say)
    run.open(RUN, resume=True)
    found = run.load()
    step = 0 if found is None else found[0]
    for _ in range(count):
        step += INTERVAL
        if run.save(step, *content(step)):
            os.writev(1, [f"ack {step}\n".encode()])


def save_too_much(path, count):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    save(path, count)


JOBS = {"save": save, "limited": save_too_much}


def main():
    for line in sys.stdin:
        command = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if command["die_at"] is not None:
                    die_at(command["die_at"])
                JOBS[command["job"]](command["path"], command["count"])
                status = 0
            finally:
                os._exit(status)
        say(f"pid {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"dead {status}")


if __name__ == "__main__":
    main()
