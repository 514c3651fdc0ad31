"""What a run is asked to do: everything besides the data that its result depends on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.ivm.greedy import Order
from sparsegp.kernels import InputScale, Kernel, parse, parse_many
from sparsegp.posterior import POSTERIORS
from sparsegp.selection.criteria import CRITERIA
from sparsegp.types import Doubles

DEFAULT_N_ACTIVE = 1000
DEFAULT_PANEL = 16
LEAST_ASIDE, MOST_ASIDE = 30, 4000


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a run.

    Parameters
    ----------
    n_active : int, optional
        Rows to include; all rows, but at most 1000, if left out.
    kernel : str
        Text of the kernel; a length scale left out is chosen from the data (`Kernel.fill`).
    kernel_per_class : bool
        One kernel, and one stub matrix, for every class. The text may then name one kernel a class,
        separated by semicolons.
    criterion : str
        Name in `CRITERIA`.
    posterior : str
        Name in `POSTERIORS`.
    scaling : str
        Name in `SCALINGS`.
    precision : str
        Of inputs and stub matrices: "float32" or "float64".
    panel : int, optional
        Rows included between two scorings; 1 is the order of the paper. Left out, it is 16 for the
        posterior `all`, which any span of that size serves as well, and for the criterion
        `residual`, which takes panels only; otherwise 1.
    lookahead : int
        In the order of the paper: rows that are tried between two questions to the row blocks. The
        active set does not depend on it.
    lazy : bool
        Evaluate only the scores that can matter. The active set does not depend on it.
    tolerance : float
        Of the posterior `all`: nats a row by which a round must raise the objective to go on.
    calibration : str
        Of the posterior `all`: "learned" from a tenth of the rows, kept aside at first, or "none",
        which iterates to convergence and leaves the latent variance out of the probabilities. With
        fewer than 300 rows nothing is learned.
    n_nodes : int
        Quadrature nodes.
    report_every : int
        Inclusions between two points of the learning curve.
    seed : int
        Key of whatever is random.
    """

    n_active: int | None = None
    kernel: str = "50*rbf + 50*matern52"
    kernel_per_class: bool = False
    criterion: str = "predictive"
    posterior: str = "all"
    scaling: str = "auto"
    precision: str = "float32"
    panel: int | None = None
    lookahead: int = 56
    lazy: bool = True
    tolerance: float = 1e-4
    calibration: str = "learned"
    n_nodes: int = 12
    report_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        from sparsegp.data import SCALINGS  # noqa: PLC0415 - names only

        for registry, name in (
            (CRITERIA, self.criterion),
            (POSTERIORS, self.posterior),
            (SCALINGS, self.scaling),
        ):
            registry[name]  # raises for an unknown name
        if self.precision not in {"float32", "float64"}:
            raise SettingsError(f"precision must be float32 or float64, got {self.precision!r}")
        if self.calibration not in {"learned", "none"}:
            raise SettingsError(f"calibration must be learned or none, got {self.calibration!r}")
        if not self.tolerance > 0.0:
            raise SettingsError(f"tolerance must be positive, got {self.tolerance}")
        for name, least in (("report_every", 1), ("n_nodes", 2), ("seed", 0), ("n_active", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingsError(f"{name} must be at least {least}, got {value}")
        if not self.kernel_per_class:
            parse(self.kernel)
        if self.order.panel == 1 and CRITERIA[self.criterion].refitted:
            raise SettingsError(
                f"criterion={self.criterion} works in panels of 2 rows or more, got panel=1; "
                f"give --panel {DEFAULT_PANEL}, or --criterion predictive for one by one"
            )

    @property
    def order(self) -> Order:
        """The order of inclusion."""
        panel = self.panel
        if panel is None:
            in_panels = self.posterior == "all" or CRITERIA[self.criterion].refitted
            panel = DEFAULT_PANEL if in_panels else 1
        return Order(self.lookahead, panel)

    @property
    def keeps_rows_aside(self) -> bool:
        """Whether some training rows serve to calibrate first."""
        return self.posterior == "all" and self.calibration == "learned"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The working precision."""
        return np.dtype(self.precision)

    def rows_aside(self, n: int) -> int:
        """Return how many of n training rows are kept aside for calibration at first."""
        enough = self.keeps_rows_aside and n // 10 >= LEAST_ASIDE
        return min(n // 10, MOST_ASIDE) if enough else 0

    def rows_to_include(self, n: int) -> int:
        """Return the number of active rows for n training rows.

        Raises
        ------
        SettingsError
            If there are fewer rows than wanted.
        """
        aside = self.rows_aside(n)
        if self.n_active is None:
            return min(DEFAULT_N_ACTIVE, n - aside)
        if self.n_active > n - aside:
            less = f" less {aside} kept aside for calibration" if aside else ""
            raise SettingsError(
                f"n_active={self.n_active} exceeds the {n} training rows{less}; lower --n-active"
            )
        return self.n_active

    def kernels(self, n_classes: int, variances: Doubles) -> list[Kernel]:
        """Return the kernels with all length scales filled in.

        Parameters
        ----------
        n_classes : int
        variances : Doubles (p,)
            Variances of the scaled input columns.
        """
        texts = parse_many(self.kernel, n_classes) if self.kernel_per_class else None
        kernels = texts or [parse(self.kernel)]
        scale = InputScale(variances)
        filled = [kernel.fill(scale) for kernel in kernels]
        probe = np.zeros((1, len(variances)), dtype=self.dtype)
        for kernel in filled:
            kernel(probe, probe)  # raises where the kernel does not fit the columns
        return filled

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "TrainSettings":
        """Restore what `to_json` gave; unknown names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(stored) - known)
        if unknown:
            raise SettingsError(f"unknown settings {', '.join(unknown)}; known: {sorted(known)}")
        return cls(**stored)


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry in which two mappings differ."""
    return [
        f"{name} was {stored.get(name)!r} and is now {wanted.get(name)!r}"
        for name in sorted(set(stored) | set(wanted))
        if stored.get(name) != wanted.get(name)
    ]
