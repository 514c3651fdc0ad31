"""What holds for every reader: an error of ours at most, in little memory and time."""

import os
import resource
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sparsegp.errors import SparseGPError
from tests.runs import peak_memory

MEMORY = 1 << 32
"""Bytes that a reader may ask for, all of its libraries together."""

HELD = 1 << 26
"""Bytes that Python and numpy may hold at once, where a reader promises nothing else."""

SECONDS = 60.0


class TooLongError(BaseException):
    """A reader that does not come back; no reader catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """Allow a little more memory than there is in use, and a minute."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module", autouse=True)
def traced() -> Iterator[None]:
    """Trace what Python and numpy hold through all tests of a file.

    It is not stopped after each reader, where threads of libraries may be at work, and would crash;
    but at the end, as whatever follows would take several times as long.
    """
    tracemalloc.start()
    yield
    tracemalloc.stop()


def campaigns(few: int, many: int) -> pytest.MarkDecorator:
    """Parametrise a test by its inputs: few, or many, or `SPARSEGP_FUZZ`, in the long campaign."""
    most = int(os.environ.get("SPARSEGP_FUZZ", str(many)))
    return pytest.mark.parametrize("examples", [few, pytest.param(most, marks=pytest.mark.slow)])


def campaign(strategy: Any, check: Callable[[Any], None], examples: int) -> None:
    """Check so many inputs of a strategy, always the same ones."""
    how = {"derandomize": True, "database": None, "deadline": None}
    limits = settings(max_examples=examples, suppress_health_check=list(HealthCheck), **how)

    @limits
    @given(strategy)
    def run(content: Any) -> None:
        check(content)

    run()


def outcome(read: Callable[[], Any], *named: str, most: int = HELD) -> Any:
    """Return what a reader returns or raises: an error must be ours, in one line, with a name.

    Python and numpy may hold so many bytes at `most`.
    """
    with peak_memory() as held:
        try:
            with limited():
                found = read()
        except SparseGPError as error:
            found, text = error, str(error)
            assert text.isprintable(), repr(text)
            assert len(text) < 3000, text[:500]
            assert any(name in text for name in named), text
        assert held() < most, f"{held() / 1e6:.0f} MB were held"
    return found


def _too_long(*_: object) -> None:
    raise TooLongError(f"no answer in {SECONDS} s")
