"""Errors that users may encounter.

Every message says what must hold, what was found (name, shape, value, file and line) and what to
do. Each class also inherits the builtin that Python users would catch. The command line prints the
message of a `SparseGPError` on one line and exits with its `exit_code`. Quoted input is not
trusted: it is shown without control characters, and URLs without their credentials.
"""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import ClassVar

LONGEST_MESSAGE = 2000
"""Maximum number of characters of a message."""

_CREDENTIALS = re.compile(r"(?<=://)\S+(?=@)|(?<=\?)[^\s,;'\"]*=[^\s,;'\"]*")


def quoted(value: object) -> str:
    """Return the repr of a value for a message, shortened if it is long."""
    try:
        plain = isinstance(value, str) and value.isprintable() and "'" not in value
        text = f"'{value}'" if plain else repr(value)
    except ValueError:  # integers with thousands of digits
        text = f"a very large {type(value).__name__}"
    return short(text)


def masked(text: str) -> str:
    """Replace user names, passwords and query parameters of URLs in a text by ***."""
    return _CREDENTIALS.sub("***", text)


def one_line(text: str) -> str:
    """Return a text as one printable line of bounded length, without credentials."""
    shown = (mark if mark.isprintable() else " " for mark in masked(text))
    return short("".join(shown), LONGEST_MESSAGE)


def visible(text: str) -> str:
    """Return a text as one line, with unprintable characters, such as terminal codes, escaped."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )


def suggestion(name: str, known: Collection[str]) -> str:
    """Return the most similar name as a question in parentheses, if there is one."""
    alike = get_close_matches(name, known, 1)
    return f" (did you mean {alike[0]!r}?)" if alike else ""


class SparseGPError(Exception):
    """Base class of all errors that the user can fix."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class DataError(SparseGPError, ValueError):
    """Data that cannot be read or used for training."""


class SettingsError(SparseGPError, ValueError):
    """A setting out of range, or settings that contradict each other."""


class KernelSyntaxError(SettingsError):
    """A kernel text that does not parse."""


class UnknownNameError(SettingsError, KeyError):
    """A name that is not in a registry."""

    __str__ = Exception.__str__

    @classmethod
    def of(cls, family: str, name: object, known: Iterable[str]) -> "UnknownNameError":
        """Return the error for a name that is not among those known, with the most similar one."""
        known = list(known)
        near = suggestion(str(name), known)
        return cls(f"unknown {family} {quoted(name)}{near}; known: {', '.join(known)}")


class StoreError(SparseGPError, OSError):
    """A checkpoint, model or run directory that is missing, altered or cannot be written."""


class ClusterError(SparseGPError, RuntimeError):
    """A scheduler that does not answer, or workers that were lost for good."""


class NumericalError(SparseGPError, ArithmeticError):
    """A quantity that left the range in which the algorithm is defined."""


class Interrupted(BaseException):
    """A requested stop of a run, which can be resumed from its checkpoint if it wrote one.

    Like KeyboardInterrupt it is no `Exception`, so that code that goes on after errors does stop.
    """

    exit_code: ClassVar[int] = 75

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


def short(text: str, length: int = 120) -> str:
    """Return a text cut to at most `length` characters, for messages."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def size(count: float) -> str:
    """Format a number of bytes, such as "1.5 GB"."""
    units = iter(("bytes", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while count >= 999.5 and (larger := next(units, "")):
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}" if count < 100 else f"{count:.0f} {unit}"
