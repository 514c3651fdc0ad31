"""SIGTERM and Ctrl-C outside of the rounds, where there is no state to be saved."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sparsegp.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a signal end what is being done, as a run that can be resumed; the next one kills."""
    former = {number: signal.getsignal(number) for number in SIGNALS}

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        restore()
        raise Interrupted(
            f"stopped by {signal.Signals(number).name} outside of the selection of rows; the last "
            "checkpoint is as it was, go on by --resume"
        )

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
