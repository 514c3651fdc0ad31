"""Settings of a sparse run, by the informative vector machine."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.ivm.greedy import Order
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import InputScale, Kernel, parse, parse_many
from sparsegp.learning.optimise import STRATEGIES
from sparsegp.likelihoods import (
    Likelihood,
    MultinomialProbit,
    SiteRule,
    parse_likelihood,
)
from sparsegp.likelihoods.parse import require_task
from sparsegp.likelihoods.sites import RULES
from sparsegp.posterior import POSTERIORS
from sparsegp.selection.criteria import CRITERIA, Change
from sparsegp.types import Doubles

DEFAULT_N_ACTIVE = 1000
DEFAULT_PANEL = 16
LEAST_ASIDE, ENOUGH_ASIDE, MOST_ASIDE = 30, 1500, 4000
"""Rows kept aside: fewer tell nothing, enough for a small table, and at most."""
MOST_NODES = 500
"""The weights of more Gauss-Hermite nodes do not fit double precision."""

LEAST = {
    "report_every": 1,
    "n_nodes": 2,
    "seed": 0,
    "n_active": 1,
    "major_steps": 1,
    "minor_steps": 1,
    "stub_entries": 1,
    "shrink_every": 1,
}

GENERAL = {"sites": "moments", "criterion": "information", "posterior": "adf", "kernel": "10*rbf"}
"""Settings that `TrainSettings.given` chooses for other likelihoods than the multinomial probit."""


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
        Name in `POSTERIORS`; `all` and `active` are for the sites "variational".
    likelihood : str
        Name in `LIKELIHOODS`; it tells whether labels are classes, or the numbers of a regression.
        Its parameters may follow in the order of its fields, for the sites "moments":
        "probit(-1.5)" has that bias, "gaussian(0.02)" that noise variance of standardised labels.
    sites : str
        How the likelihood of an active row becomes Gaussian: "variational" (GR, for the multinomial
        probit), or "moments" (SLH).
    active_per_class : bool
        An active set for every class (SLH section 4), for the sites "moments" of a likelihood with
        a latent value a class; `n_active` then counts pairs of a row and a class.
    epsilon : float
        For the sites "moments": least precision of the site of a row to include (SLH algorithm 1).
    learn : str
        "none", or "evidence" for the sites "moments": kernels and likelihood (SLH section 3.3).
    major_steps, minor_steps : int
        Times that the active rows are selected anew while learning, and line searches in between,
        at most.
    strategy : str
        What the sites do between two selections: a name in `STRATEGIES`. For likelihoods of several
        latent values it is "constant".
    hyperprior : str
        Prior densities of what is learnt (learning/hyperpriors.py), such as
        "v: lognormal(-1, 1); bias: normal(0, 25)".
    stub_entries : int, optional
        Randomised greedy selection (SLH section 3.2): bound on candidates times active rows, for
        every kernel, at any time. Not for the posterior `all` and the criterion `residual`, which
        need the stubs of all rows. A bound that all rows keep to the end changes nothing.
    shrink_every : int
        With `stub_entries`: inclusions between two thinnings of the candidates.
    keep_best : float
        With `stub_entries`: share of those kept that are the best; the others are drawn at random.
    scaling : str
        Name in `SCALINGS`.
    precision : str
        Of inputs and stub matrices: "float32" or "float64".
    panel : int, optional
        Rows included between two scorings; 1 is the order of the paper. Left out, it is 16 for the
        posterior `all` and for the criterion `residual`, which takes panels only; otherwise 1.
    lookahead : int
        In the order of the paper: rows that are tried between two questions to the row blocks. The
        active set does not depend on it.
    lazy : bool
        Evaluate only the scores that can matter. The active set does not depend on it.
    tolerance : float
        Of the posterior `all`: nats a row by which a round must raise the objective to go on.
    calibration : str
        "learned" from rows kept aside (`rows_aside`), or "none": the posterior `all` goes on to
        convergence and leaves the latent variance out; the sites "moments" give the predictive
        distribution of the paper. Nothing is learned from fewer than 300 rows, in a regression,
        nor for `adf` and `active` with other sites.
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
    likelihood: str = "multinomial_probit"
    sites: str = "variational"
    active_per_class: bool = False
    epsilon: float = 1e-8
    learn: str = "none"
    major_steps: int = 15
    minor_steps: int = 8
    strategy: str = "constant"
    hyperprior: str = ""
    stub_entries: int | None = None
    shrink_every: int = 100
    keep_best: float = 0.5
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
            (RULES, self.sites),
            (STRATEGIES, self.strategy),
        ):
            registry[name]  # raises for an unknown name
        self._check_likelihood()
        if self.precision not in {"float32", "float64"}:
            raise SettingsError(f"precision must be float32 or float64, got {self.precision!r}")
        if self.calibration not in {"learned", "none"}:
            raise SettingsError(f"calibration must be learned or none, got {self.calibration!r}")
        self._check_ranges()
        if self.stub_entries is not None:
            self._check_bounded()
        if not self.kernel_per_class:
            parse(self.kernel)
        if self.order.panel == 1 and CRITERIA[self.criterion].refitted:
            raise SettingsError(
                f"criterion={self.criterion} works in panels of 2 rows or more, got panel=1; "
                f"give --panel {DEFAULT_PANEL}, or --criterion predictive for one by one"
            )

    def _check_ranges(self) -> None:
        """Refuse numbers out of range."""
        for name in ("tolerance", "epsilon"):
            if not getattr(self, name) > 0.0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingsError(f"{name} must be at least {least}, got {value}")
        if self.n_nodes > MOST_NODES:
            raise SettingsError(
                f"n_nodes must be at most {MOST_NODES}, got {self.n_nodes}; from some dozens on "
                "more make no difference"
            )
        if not 0.0 <= self.keep_best <= 1.0:
            raise SettingsError(f"keep_best must be in [0, 1], got {self.keep_best}")

    def _check_likelihood(self) -> None:
        """Refuse what does not go together."""
        chosen = parse_likelihood(self.likelihood)
        if self.sites == "moments" and self.posterior != "adf":
            raise SettingsError(
                f"posterior={self.posterior} is for sites=variational; with sites=moments use adf"
            )
        if self.sites == "variational" and chosen.family is not MultinomialProbit:
            raise SettingsError(
                f"sites=variational are those of likelihood=multinomial_probit, got "
                f"{self.likelihood}; use sites=moments"
            )
        if self.sites == "variational" and chosen.given is not None:
            raise SettingsError(
                f"parameters of likelihoods are for sites=moments, got {self.likelihood} with "
                "sites=variational; give its name alone"
            )
        if self.sites == "moments" and CRITERIA[self.criterion].refitted:
            raise SettingsError(f"criterion={self.criterion} is for sites=variational")
        if self.active_per_class:
            self._check_pairs()
        if self.learn not in {"none", "evidence"}:
            raise SettingsError(f"learn must be none or evidence, got {self.learn!r}")
        if self.learn == "evidence" and self.sites != "moments":
            raise SettingsError(
                f"learn=evidence needs sites=moments, got sites={self.sites}; give --sites moments "
                "too, or another likelihood, such as probit"
            )

    def _check_pairs(self) -> None:
        """Refuse what active sets of single classes cannot have."""
        if self.sites != "moments":
            raise SettingsError(
                f"active_per_class needs sites=moments, got sites={self.sites}; give --sites "
                "moments too"
            )
        if not issubclass(CRITERIA[self.criterion], Change):
            fitting = [name for name in CRITERIA if issubclass(CRITERIA[name], Change)]
            raise SettingsError(
                f"active_per_class needs a criterion that scores single classes, got "
                f"{self.criterion}; use one of {', '.join(fitting)}"
            )

    def _check_bounded(self) -> None:
        """Refuse what needs more stub entries than those of the candidates."""
        for name, value, instead in (
            ("posterior", POSTERIORS[self.posterior].listens, "give --posterior adf or active"),
            ("criterion", CRITERIA[self.criterion].refitted, "give --criterion predictive"),
        ):
            if value:
                raise SettingsError(
                    f"stub_entries (--stub-entries, --stub-memory) bounds the stubs of the "
                    f"candidates, but {name}={getattr(self, name)} needs those of all rows; "
                    f"{instead}, or leave the bound out"
                )

    def bound(self, n: int, n_active: int, n_kernels: int) -> Bound | None:
        """Return the bound on stub entries for n training rows, if it is to be felt.

        Raises
        ------
        SettingsError
            If it is too small for so many active rows.
        """
        if self.stub_entries is None:
            return None
        bound = Bound(self.stub_entries, self.shrink_every, self.keep_best)
        columns = 1 if self.active_per_class else n_kernels  # of an inclusion
        return bound.for_run(n - self.rows_aside(n), n_active, columns)

    def rule(self, n_classes: int) -> SiteRule:
        """Return the likelihood for so many classes, and its sites.

        Raises
        ------
        SettingsError
            If the likelihood is for another number of classes.
        """
        likelihood = self.start_likelihood(n_classes)
        several = likelihood.n_latent(n_classes) > 1
        if self.sites == "moments" and several and not self.kernel_per_class:
            raise SettingsError(
                f"sites=moments of likelihood={self.likelihood} differ from class to class, so "
                "each needs a kernel of its own; give kernel_per_class (--kernel-per-class)"
            )
        if self.learn == "evidence" and several and self.strategy != "constant":
            raise SettingsError(
                f"strategy={self.strategy} is for likelihoods of one latent value, got "
                f"{self.likelihood}; give strategy=constant"
            )
        return SiteRule(likelihood, self.sites, self.epsilon if self.sites == "moments" else 0.0)

    def start_likelihood(self, n_classes: int) -> Likelihood:
        """Return the likelihood before anything is learnt."""
        return parse_likelihood(self.likelihood).start(n_classes, self.n_nodes)

    @property
    def order(self) -> Order:
        """The order of inclusion."""
        panel = self.panel
        if panel is None:
            in_panels = self.posterior == "all" or CRITERIA[self.criterion].refitted
            panel = DEFAULT_PANEL if in_panels else 1
        return Order(self.lookahead, panel)

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return parse_likelihood(self.likelihood).family.numeric

    @property
    def keeps_rows_aside(self) -> bool:
        """Whether some training rows serve to calibrate first."""
        if self.calibration == "none" or self.is_regression:
            return False
        return self.posterior == "all" or self.sites == "moments"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The working precision."""
        return np.dtype(self.precision)

    def rows_aside(self, n: int) -> int:
        """Return how many of n training rows are kept aside for calibration at first.

        A tenth; for the posterior `all`, of small tables, a fifth of those not to become active.
        """
        if not self.keeps_rows_aside or n // 10 < LEAST_ASIDE:
            return 0
        wanted = DEFAULT_N_ACTIVE if self.n_active is None else self.n_active
        fifth = min((n - wanted) // 5, ENOUGH_ASIDE) if self.posterior == "all" else 0
        return min(max(n // 10, fifth), MOST_ASIDE)

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
        if self.n_active > n - aside and not self.active_per_class:
            less = f" less {aside} kept aside for calibration" if aside else ""
            raise SettingsError(
                f"n_active={self.n_active} exceeds the {n} training rows{less}; lower --n-active"
            )
        return self.n_active

    def kernels(self, n_latent: int, variances: Doubles) -> list[Kernel]:
        """Return the kernels with all length scales filled in.

        Parameters
        ----------
        n_latent : int
            Latent values of a row.
        variances : Doubles (p,)
            Variances of the scaled input columns.
        """
        texts = parse_many(self.kernel, n_latent) if self.kernel_per_class else None
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
    def given(cls, **named: Any) -> "TrainSettings":
        """Return settings of which some are named; the others suit the likelihood.

        A `task` may be named too: for "regression" the likelihood is "gaussian" if left out.

        Raises
        ------
        SettingsError
            If a name is unknown, or the settings do not go together.
        """
        task = named.pop("task", None)
        if task == "regression":
            named = {"likelihood": "gaussian", **named}
        likelihood = named.get("likelihood", cls.likelihood)
        require_task(task, likelihood)
        if named.get("active_per_class"):
            named = {"sites": "moments", "kernel_per_class": True, **named}
        if likelihood != cls.likelihood or named.get("sites") == "moments":
            named = {**GENERAL, **named}
        return cls.from_json(named)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "TrainSettings":
        """Restore what `to_json` gave; unknown names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(stored) - known)
        if unknown:
            raise SettingsError(f"unknown settings {', '.join(unknown)}; known: {sorted(known)}")
        return cls(**stored)
