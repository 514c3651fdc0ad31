"""How a run tells what it is doing."""

import logging
from typing import Protocol

logger = logging.getLogger(__name__)


class Progress(Protocol):
    """What shows how far a run is."""

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage of `total` units."""

    def update(self, done: int, **figures: float) -> None:
        """Say how many units are done, and figures to show beside them."""

    def message(self, text: str) -> None:
        """Say something."""

    def finish(self) -> None:
        """End the stage."""


class Quiet:
    """Progress that goes to the log."""

    def start(self, total: int, unit: str, description: str) -> None:
        """Note the beginning."""
        logger.info("%s: %d %s", description, total, unit)

    def update(self, done: int, **figures: float) -> None:
        """Show nothing."""

    def message(self, text: str) -> None:
        """Note a message."""
        logger.warning("%s", text)

    def finish(self) -> None:
        """Show nothing."""
