"""How long a run on a cluster waits, and how many losses it bears."""

from dataclasses import dataclass

MAX_PULSE_SECONDS = 5.0

HOSTS_AT_A_TIME = 32
"""Workers whose sums are in the memory of the driver side by side."""


@dataclass(frozen=True)
class Limits:
    """How long to wait and how much to bear.

    Parameters
    ----------
    call_seconds : float
        A worker that takes longer for one call counts as lost.
    silent_seconds : float
        A worker that gives no sign of life for so long, while it is waited for, counts as lost: its
        process hangs, or the network between it and the driver is cut.
    rejoin_seconds : float
        How long to wait for a replacement of a lost worker before others take its blocks. One that
        comes later gets some of them back.
    absent_seconds : float
        How long to wait for a worker if none is left.
    max_losses : int
        Losses of workers in all, after which a run is given up.
    max_losses_in_a_row : int
        Losses while the same block was waited for, without an answer between them.
    """

    call_seconds: float = 600.0
    silent_seconds: float = 30.0
    rejoin_seconds: float = 5.0
    absent_seconds: float = 60.0
    max_losses: int = 100
    max_losses_in_a_row: int = 3

    @property
    def pulse_seconds(self) -> float:
        """How often to ask for a sign of life, and how long to wait for it."""
        return min(MAX_PULSE_SECONDS, self.silent_seconds / 3)
