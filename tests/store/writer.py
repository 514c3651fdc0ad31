"""Writers of checkpoints in processes of their own, which are killed."""

import multiprocessing
import os
import resource
import signal

import numpy as np

from sparsegp.store import RunDirectory

INTERVAL = 40
RUN = {"settings": {"n": 1}, "data": {"rows": 5}}
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


def write(path, count, die_at=None, largest=None):
    """Save `count` checkpoints after the newest; return exit code, steps saved and warnings.

    The writer kills itself before the change of the file system with the number `die_at`, and may
    be denied files of more than `largest` bytes.
    """
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_save, args=(sender, path, count, die_at, largest))
    process.start()
    sender.close()
    received = []
    try:
        while True:
            received.append(receiver.recv())
    except EOFError:
        process.join()
    steps = [each for each in received if isinstance(each, int)]
    return process.exitcode, steps, [each for each in received if isinstance(each, str)]


def _save(sender, path, count, die_at, largest):
    if die_at is not None:
        _die_at(die_at)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    run = RunDirectory(path, 2, sender.send)
    run.open(RUN, resume=True)
    found = run.load()
    step = 0 if found is None else found[0]
    for _ in range(count):
        step += INTERVAL
        if run.save(step, *content(step)):
            sender.send(step)


def _die_at(number):
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
