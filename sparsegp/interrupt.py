"""SIGTERM and Ctrl-C as a request to stop at the next safe point."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """Context manager: the first signal sets `requested`, a second one interrupts at once.

    One inside another shares its request. Signals can be caught in the main thread only; elsewhere
    this does nothing.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.requested = ""
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._former[number] = signal.signal(number, self._note)
                around = self._around(number)
                self.requested = self.requested or (around.requested if around else "")
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
        around = self._around(signal.Signals(number))
        if around is not None:
            around.requested = self.requested

    def _around(self, number: signal.Signals) -> "StopRequest | None":
        owner = getattr(self._former.get(number), "__self__", None)
        return owner if isinstance(owner, StopRequest) else None
