"""SIGTERM, SIGHUP and Ctrl-C as requests to stop at the next safe point."""

import os
import signal
import threading
from types import FrameType
from typing import Any, Self

from sparsegp.errors import Interrupted

IMPORTS = "<frozen importlib._bootstrap>"


class StoppedAtOnce(BaseException):
    """Stop by a signal while there is no state to save; no `except Exception` swallows it."""


class StopRequest:
    """Context manager in which the first signal sets `requested`, and a second one interrupts.

    Nested contexts share their requests. Signals are caught in the main thread only; a context in
    another thread reports the request of the main thread, if any.

    With a text `at_once`, for use while there is no state to save, already the first signal raises
    `StoppedAtOnce` with this text. During an import, which may swallow exceptions, the process
    exits with `code` instead.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

    def __init__(self, at_once: str = "", code: int = Interrupted.exit_code) -> None:
        self.at_once, self.code = at_once, code
        self._requested = ""
        self._outer: StopRequest | None = None
        self._former: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> str:
        """Name of the signal that was received, or ""."""
        return self._requested or (self._outer.requested if self._outer is not None else "")

    def check(self) -> None:
        """Raise an error if a signal was received.

        Raises
        ------
        Interrupted
        """
        if reason := self.requested:
            raise Interrupted(f"stopped by {reason}")

    def __enter__(self) -> Self:
        owner = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        self._outer = owner if isinstance(owner, StopRequest) else None
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                former = signal.getsignal(number)  # None if it is handled outside Python
                is_nohup = number == signal.SIGHUP and former == signal.SIG_IGN
                if former is not None and not is_nohup:
                    self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        request: StopRequest | None = self
        while request is not None:
            request._requested = signal.Signals(number).name
            request = request._outer
        if self.at_once:
            words = f"stopped by {self._requested}; {self.at_once}"
            if _importing(frame):
                os.write(2, f"{words}\n".encode())
                os._exit(self.code)
            raise StoppedAtOnce(words)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != IMPORTS:
        frame = frame.f_back
    return frame is not None
