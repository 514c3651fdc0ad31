"""Memory and work of a dense method, told from the shape of its data before it begins."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparsegp.estimate.memory import DOUBLE, PROCESS_BYTES
from sparsegp.settings import DenseSettings


@dataclass(frozen=True)
class DenseEstimate:
    """What a run will take.

    Attributes
    ----------
    rows, columns, classes, kernels : int
        Sizes.
    matrices : int
        Matrices of all rows by all rows that are held at a time.
    total_bytes : int
        Of the process.
    flops : float
        Of one factor of a covariance matrix for every kernel; a run needs some tens to some
        thousands of them, by method, data and tolerance.
    """

    rows: int
    columns: int
    classes: int
    kernels: int
    matrices: int
    total_bytes: int
    flops: float

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    def most_rows(self, limit: int) -> int:
        """Return the greatest number of rows that fits so many bytes."""
        rest = limit - PROCESS_BYTES
        return int(np.sqrt(rest / (DOUBLE * self.matrices))) if rest > 0 else 0


def estimate_dense(
    n: int, p: int, n_classes: int, settings: DenseSettings, source_bytes: int = 0
) -> DenseEstimate:
    """Estimate memory and work of a run.

    Parameters
    ----------
    n, p, n_classes : int
        Training rows, columns and classes; no classes in a regression.
    settings : DenseSettings
    source_bytes : int
        What is held of the data as they were read.

    Raises
    ------
    SettingsError
        If the method is not for so many classes.
    """
    n_kernels, matrices = settings.sizes(n_classes)
    return DenseEstimate(
        rows=n,
        columns=p,
        classes=n_classes,
        kernels=n_kernels,
        matrices=matrices,
        total_bytes=PROCESS_BYTES + source_bytes + DOUBLE * (n * p + matrices * n * n),
        flops=n_kernels * n**3 / 3.0,
    )
