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
        self._outermost, self._received = self, ""
        self._former: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> str:
        """Name of the signal that was received, or ""."""
        return self._outermost._received

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
        self._outermost = owner._outermost if isinstance(owner, StopRequest) else self
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
        self._outermost._received = signal.Signals(number).name
        if self.at_once:
            words = f"stopped by {self.requested}; {self.at_once}"
            while frame is not None and frame.f_code.co_filename != IMPORTS:
                frame = frame.f_back
            if frame is not None:  # during an import
                os.write(2, f"{words}\n".encode())
                os._exit(self.code)
            raise StoppedAtOnce(words)
