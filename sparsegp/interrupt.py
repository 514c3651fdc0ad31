"""SIGTERM and Ctrl-C as a request to stop at the next safe point."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from sparsegp.errors import Interrupted


class StopRequest:
    """Context manager: the first signal sets `requested`, a second one interrupts at once.

    One inside another shares its request. Signals are caught in the main thread only; in another
    thread this has the request of the main thread, if that has one.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self._requested = ""
        self._of_main: StopRequest | None = None
        self._former: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> str:
        """Name of the signal that came, or nothing."""
        return self._of_main.requested if self._of_main is not None else self._requested

    def check(self) -> None:
        """End here if a signal came.

        Raises
        ------
        Interrupted
        """
        if reason := self.requested:
            raise Interrupted(f"stopped by {reason}")

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            self._of_main = _owner(signal.getsignal(signal.SIGTERM))
            return self
        for number in self.SIGNALS:
            self._former[number] = signal.signal(number, self._note)
            around = _owner(self._former[number])
            self._requested = self._requested or (around.requested if around else "")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._requested:
            raise KeyboardInterrupt
        self._requested = signal.Signals(number).name
        around = _owner(self._former.get(signal.Signals(number)))
        if around is not None:
            around._requested = self._requested


def _owner(handler: Any) -> StopRequest | None:
    """Return the request that a handler of signals is of, if it is of one."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, StopRequest) else None
