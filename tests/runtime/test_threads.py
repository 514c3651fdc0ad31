"""Threads of the driver's process."""

import pytest

from tests.processes import PATIENCE, run_python

INTERRUPTED = """
import random, signal
from sparsegp.runtime.threads import ThreadRuntime

class Block:
    def count(self, limit):
        return sum(range(limit))

signal.signal(signal.SIGALRM, signal.default_int_handler)
chance = random.Random(0)
for _ in range(300):
    with ThreadRuntime(4) as runtime:
        runtime.build(Block, [{}] * 16)
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-4, 5e-3))
            while True:
                runtime.map_blocks("count", 5000)
        except KeyboardInterrupt:
            pass
        except RuntimeError as error:  # of a semaphore of Python, interrupted as it is released
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
"""


@pytest.mark.slow
def test_interrupted_at_any_instant():
    """No thread is left waiting for a lock of the interrupted call; that would never end."""
    run_python("-c", INTERRUPTED, timeout=PATIENCE)
