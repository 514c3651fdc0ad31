"""Errors a user can meet.

Every message says what must hold, what was found (name, shape, value, file and line) and what to
do. Each class also inherits the builtin that Python users would catch. The command line prints the
message of a `SparseGPError` on one line and exits with its `exit_code`. What a message quotes may
come from anywhere: it is shown without control characters, and URLs without their credentials.
"""

import re
from typing import ClassVar

LONGEST_MESSAGE = 2000
"""Characters of a message."""

_CREDENTIALS = re.compile(r"(?<=://)\S+(?=@)|(?<=\?)[^\s,;'\"]*=[^\s,;'\"]*")


def quoted(value: object) -> str:
    """Return a value as a message shows it: as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # whole numbers of thousands of digits
        text = f"a very large {type(value).__name__}"
    return short(text)


def masked(text: str) -> str:
    """Return a text with *** in place of user names, passwords and keys in URLs."""
    return _CREDENTIALS.sub("***", text)


def one_line(text: str) -> str:
    """Return a text in one printable line, without credentials."""
    shown = (mark if mark.isprintable() else " " for mark in masked(text))
    return short("".join(shown), LONGEST_MESSAGE)


def visible(text: str) -> str:
    """Return text in one line, with escapes in place of what could steer a terminal."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )


class SparseGPError(Exception):
    """Base of all errors that are the user's to mend."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class DataError(SparseGPError, ValueError):
    """Data that cannot be read or learnt from."""


class SettingsError(SparseGPError, ValueError):
    """A setting out of range, or settings that contradict each other."""


class KernelSyntaxError(SettingsError):
    """A kernel text that does not parse."""


class UnknownNameError(SettingsError, KeyError):
    """A name that a registry does not hold."""

    __str__ = Exception.__str__


class StoreError(SparseGPError, OSError):
    """A checkpoint, model or run directory that is missing, altered or cannot be written."""


class ClusterError(SparseGPError, RuntimeError):
    """A scheduler that does not answer, or workers that were lost for good."""


class NumericalError(SparseGPError, ArithmeticError):
    """A quantity that left the range in which the algorithm is defined."""


class Interrupted(SparseGPError):  # noqa: N818 - a state, not a fault
    """The run was asked to stop; it can be resumed from the checkpoint it wrote."""

    exit_code: ClassVar[int] = 75


def short(text: str, length: int = 120) -> str:
    """Return what a user gave, cut where a message would no longer fit a few lines."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def size(count: float) -> str:
    """Return a number of bytes in words."""
    units = iter(("bytes", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while count >= 999.5 and (larger := next(units, "")):
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}" if count < 100 else f"{count:.0f} {unit}"
