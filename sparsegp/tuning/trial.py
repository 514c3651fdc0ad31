"""One trial: train with one kernel on some of the rows, and look at rows it has never seen.

A trial is a pure function of its sample and its settings, on one thread, with nothing written and
no dask inside; it runs as well in a thread as in a worker of a cluster.
"""

import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import NumericalError, SettingsError
from sparsegp.execution.base import Part
from sparsegp.execution.threads import ThreadRuntime
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.rows import BlockSettings
from sparsegp.kernels import parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.posterior import POSTERIORS, ActiveRows, Posterior
from sparsegp.posterior.early_stopping import lead_of
from sparsegp.posterior.refits import Refits
from sparsegp.report.metrics import calibration_error
from sparsegp.selection.criteria import CRITERIA
from sparsegp.settings import TrainSettings
from sparsegp.training.rows import choose_aside
from sparsegp.tuning.ard import refine_ard
from sparsegp.types import Doubles, Floats, Integers

SEARCH_ROWS, SEARCH_ACTIVE = 2000, 200
"""Size of the search for a length scale for every column, at most."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to train on, in an order whose every beginning is a sample too, and rows to look at.

    Attributes
    ----------
    X : Floats (n, p)
        Scaled inputs, in the working precision.
    target : Integers (n,)
        Class codes.
    X_held : Floats (m, p)
    target_held : Integers (m,)
    n_classes : int
    """

    X: Floats
    target: Integers
    X_held: Floats
    target_held: Integers
    n_classes: int

    def turned(self) -> "Sample":
        """Return the same rows, of which others are held out: the last of those to train on."""
        n = len(self.X)
        X = np.concatenate((self.X_held, self.X))
        target = np.concatenate((self.target_held, self.target))
        return Sample(X[:n], target[:n], X[n:], target[n:], self.n_classes)

    def digest(self) -> str:
        """Return a digest of all values."""
        found = hashlib.blake2b(digest_size=16)
        for values in (self.X, self.target, self.X_held, self.target_held):
            found.update(np.ascontiguousarray(values).data)
        return found.hexdigest()


@dataclass(frozen=True)
class Trial:
    """What is tried.

    Attributes
    ----------
    number : int
        Of the candidate, from 0.
    kernel : str
        Its text, complete.
    rung : int
    rows : int
        Rows of the sample that it trains on, the first ones.
    n_active : int
    steps : int
        Of the search for a length scale for every column, which begins at the kernel; 0 for none.
    rival : str
        Kernel that this one has to beat, if any, on rows that have chosen neither.
    """

    number: int
    kernel: str
    rung: int
    rows: int
    n_active: int
    steps: int = 0
    rival: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """How a trial went on the held-out rows.

    Attributes
    ----------
    kernel : str
        What was compared: the kernel of the trial, or what the search made of it.
    nlpp : float or None
        Mean of -log p of the true class in nats; None if the trial failed.
    error : float or None
        Share of rows whose most probable class is not theirs.
    ece : float or None
        Expected calibration error in 15 equal bins.
    seconds : float
        Of processor time.
    failure : str
        Why there are no figures.
    leads : bool
        Whether it may be chosen: what a search found has to be better than its start by more than
        a standard error, and so has a kernel than its rival.
    """

    kernel: str
    nlpp: float | None
    error: float | None
    ece: float | None
    seconds: float
    failure: str = ""
    leads: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def run_trial(settings: TrainSettings, sample: Sample, trial: Trial) -> Outcome:
    """Train with a kernel on the first rows of a sample and compare with the held-out rows.

    Numerical breakdown is an outcome, not an error: the kernel does not suit the data or the
    precision, or has no length scale that could be one for every column.
    """
    began, kernel = time.thread_time(), trial.kernel
    if trial.rival:
        sample = sample.turned()
    try:
        found, leading = held_out(settings, sample, trial), True
        if trial.steps:
            # of the trial that this begins at, only means over the rows were kept
            kernel, start = refined(settings, sample, trial), found
            found = held_out(settings, sample, replace(trial, kernel=kernel))
            leading = found.leads(start)
        if trial.rival:
            other = held_out(settings, sample, replace(trial, kernel=trial.rival))
            leading = found.leads(other)
    except (NumericalError, SettingsError) as failure:
        return Outcome(kernel, None, None, None, time.thread_time() - began, str(failure))
    nlpp, error = -float(found.log_p.mean()), float(np.mean(~found.right))
    ece = calibration_error(found.confidence, found.right)
    return Outcome(kernel, nlpp, error, ece, time.thread_time() - began, leads=leading)


def refined(settings: TrainSettings, sample: Sample, trial: Trial) -> str:
    """Return the kernel with a length scale for every column, found on some of the rows."""
    rows, n_active = min(trial.rows, SEARCH_ROWS), min(trial.n_active, SEARCH_ACTIVE)
    kernel, _ = refine_ard(
        sample.X[:rows],
        sample.target[:rows],
        sample.X_held,
        sample.target_held,
        trial.kernel,
        sample.n_classes,
        n_active,
        settings.seed,
        trial.steps,
    )
    return kernel


@dataclass(frozen=True)
class HeldOut:
    """What a kernel says of the held-out rows.

    Attributes
    ----------
    log_p : Doubles (m,)
        Of the true class.
    confidence : Doubles (m,)
        Probability of the likeliest class.
    right : array (m,)
        Whether that is the true one.
    """

    log_p: Doubles
    confidence: Doubles
    right: NDArray[np.bool_]

    def leads(self, other: "HeldOut") -> bool:
        """Tell whether it is better on average by more than a standard error."""
        lead, error = lead_of(self.log_p, other.log_p)
        return lead > error


def held_out(settings: TrainSettings, sample: Sample, trial: Trial) -> HeldOut:
    """Train with the kernel of a trial, and return what it says of the held-out rows.

    Only the probabilities of the true and of the likeliest class are computed. They are not
    normalised over the classes, which would change them by the error of the quadrature.
    """
    likelihood = MultinomialProbit(settings.n_nodes)
    mean, variance = latent(settings, sample, trial)
    likeliest = mean.argmax(axis=1)  # the classes share the variance
    log_p = likelihood.log_z(mean, variance, sample.target_held)
    confidence = np.exp(likelihood.log_z(mean, variance, likeliest))
    return HeldOut(log_p, confidence, likeliest == sample.target_held)


def latent(settings: TrainSettings, sample: Sample, trial: Trial) -> tuple[Doubles, Doubles]:
    """Return calibrated latent means (m, K) and variances (m, 1) of the held-out rows."""
    blocks = BlockSettings(
        kernels=[parse(trial.kernel)],
        rule=SiteRule(MultinomialProbit(settings.n_nodes)),
        criterion=CRITERIA[settings.criterion](settings.seed),
        n_latent=sample.n_classes,
        capacity=trial.n_active,
        lazy=settings.lazy,
    )
    inputs = {
        "X": sample.X[: trial.rows],
        "target": sample.target[: trial.rows],
        "first_row": 0,
        "aside": choose_aside(trial.rows, replace(settings, n_active=trial.n_active)),
    }
    active = ActiveSet()
    with ThreadRuntime(1) as runtime:
        runtime.build(functools.partial(RowBlock, blocks), [Part(0, inputs)])
        selection = Selection(runtime, blocks, settings.order, active)
        rows = SampleRows(runtime, trial.rows, settings)
        refits = Refits(selection, rows)
        while len(active) < trial.n_active:
            refits.keep_up()
            selection.round(trial.n_active)
        left = ActiveRows.of(blocks, active)
        span = POSTERIORS[settings.posterior].make(left, rows)
        mean, variance = Posterior.from_span(left, span).latent(sample.X_held)
    temperature, weight = span.calibration.temperature, span.calibration.variance_weight
    return mean / temperature, variance * weight


@dataclass
class SampleRows:
    """The rows of a trial as a posterior sees them (`posterior.base.Rows`)."""

    runtime: ThreadRuntime
    n_rows: int
    settings: TrainSettings
    former: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.precision = self.settings.dtype
        self.tolerance = self.settings.tolerance
        self.calibrate = self.settings.keeps_rows_aside

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the block."""
        return self.runtime.map_blocks(method, *args)

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Call a method on the block."""
        return self.runtime.sum_blocks([0], method, *args)

    def say(self, state: Callable[[], dict[str, Any]], **figures: float) -> None:
        """Keep nothing: a trial is repeated if it is interrupted."""
