"""SIGTERM and Ctrl-C as a request to stop at the next safe point."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """Context manager: the first signal sets `requested`, a second one interrupts at once.

    Signals can be caught in the main thread only; elsewhere this does nothing.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.requested = ""
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._former[number] = signal.signal(number, self._note)
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
        if self.requested:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
