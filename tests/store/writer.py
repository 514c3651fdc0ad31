"""Writers of checkpoints in processes of their own, which are killed."""

import multiprocessing
import os
import resource
import signal
import time

import numpy as np

from sparsegp.store import RunDirectory

INTERVAL = 40
RUN = {"settings": {}, "data": {}}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


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


def write(path, count, *, kill_after=None, die_at=None, largest=None):
    """Save `count` checkpoints after the newest; return exit code, steps saved and warnings.

    Parameters
    ----------
    path : Path
    count : int
    kill_after : float, optional
        Seconds from the start of the writer.
    die_at : int, optional
        Changes of the file system before it kills itself.
    largest : int, optional
        Bytes that a file of it may have.
    """
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_save, args=(sender, path, count, die_at, largest))
    process.start()
    sender.close()
    said = []
    try:
        said.append(receiver.recv())  # it is there
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        while True:
            said.append(receiver.recv())
    except EOFError:
        process.join()
    steps = [each for each in said[1:] if isinstance(each, int)]
    return process.exitcode, steps, [each for each in said if isinstance(each, str)]


def _save(sender, path, count, die_at, largest):
    if die_at is not None:
        _die_at(die_at)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sender.send(None)
    run = RunDirectory(path, 2, sender.send)
    run.open(RUN, resume=True)
    found = run.load()
    step = 0 if found is None else found[0]
    for _ in range(count):
        step += INTERVAL
        if run.save(step, *content(step)):
            sender.send(step)


def _die_at(number):
    """Kill this process right before its `number`-th change of the file system."""
    left = [number]

    def counted(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ("fsync", "replace", "mkdir", "unlink", "ftruncate", "write"):
        setattr(os, name, counted(getattr(os, name)))
