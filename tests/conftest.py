"""What tests of several parts share."""

from collections.abc import Callable
from typing import Any

import pytest

from sparsegp.interrupt import StopRequest


class StopAfter(StopRequest):
    """A stop that is requested when it has been looked at so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def __getattribute__(self, name: str) -> Any:
        if name == "requested":
            self.looks -= 1
            return "" if self.looks > 0 else "SIGTERM"
        return super().__getattribute__(name)


@pytest.fixture(scope="session")
def stop_after() -> Callable[[int], StopRequest]:
    return StopAfter
