"""A process that is killed: reads a JSON command a line, forks a writer for each.

Started as a script by the tests. What the writer has saved it prints as `ack <step>`.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

import numpy as np
import zarr  # noqa: F401 - loaded once, before the forks

from sparsegp.checkpoint import Generations, read_bundle, write_bundle

KIND = "sparsegp-model"
INTERVAL = 40


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


def check(step, bundle):
    """Assert that a bundle holds the content of the step, bit for bit."""
    meta, arrays = content(step)
    assert bundle.meta == meta
    assert bundle.arrays.keys() == arrays.keys()
    for name, values in arrays.items():
        assert bundle.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(bundle.arrays[name], values)


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

    for name in ("fsync", "rename", "mkdir", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))


def save_generations(root, count):
    generations = Generations(root, keep_last=2)
    generations.sweep()
    found = generations.load()
    step = 0 if found is None else found[0]
    for _ in range(count):
        step += INTERVAL
        generations.save(step, *content(step))
        say(f"ack {step}")


def replace_bundle(path, count):
    found = read_bundle(path, kind=KIND, versions={1})
    step = found.meta["step"]
    for _ in range(count):
        step += INTERVAL
        write_bundle(path, *content(step), kind=KIND, version=1)
        say(f"ack {step}")


def save_too_much(root, count):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        save_generations(root, count)
    except OSError as error:
        say(f"{type(error).__name__} {error}")


JOBS = {"generations": save_generations, "replace": replace_bundle, "limited": save_too_much}


def main():
    for line in sys.stdin:
        command = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if command["die_at"] is not None:
                    die_at(command["die_at"])
                JOBS[command["job"]](Path(command["path"]), command["count"])
                status = 0
            finally:
                os._exit(status)
        say(f"pid {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"dead {status}")


if __name__ == "__main__":
    main()
