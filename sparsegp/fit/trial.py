"""One trial of a search: fit some of the rows with one kernel, and look at rows it has never seen.

A trial is a pure function of its sample and its settings, on one thread, with nothing written and
no dask inside; it runs as well in a thread as in a worker of a cluster.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Scaling
from sparsegp.errors import DataError, NumericalError, SettingsError
from sparsegp.fit.prepare import Prepared
from sparsegp.fit.training import fit_rows
from sparsegp.kernels import Kernel, parse
from sparsegp.learning.relevances import averaged, mean_squared_slopes, with_relevances
from sparsegp.learning.search import Outcome, Trial
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.posterior.predict import Posterior
from sparsegp.report.metrics import calibration_error
from sparsegp.settings import TrainSettings
from sparsegp.types import Booleans, Doubles, Floats, Integers

PART, MOST_HELD_OUT = 5, 4000
"""Of the rows, the one in so many that no fit takes; and how many are held out, at most."""
FEW, PARTS = 2000, 3
"""Below so many rows every one is held out once, in so many parts: fewer tell too little."""
SLOPE_ROWS = 2000
"""Rows, at most, at which slopes are taken."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in an order whose every stretch is a stratified sample.

    Attributes
    ----------
    X : Floats (n, p)
        Inputs before they are scaled.
    target : Integers (n,)
        Class codes.
    n_classes : int
    parts : int
        Parts that are held out in turn; with 1 these are the rows at the end.
    scalings : mapping of str to Scaling
        By the names of their rules.
    weights : Doubles (n,), optional
        Of the rows.
    """

    X: Floats
    target: Integers
    n_classes: int
    parts: int = 1
    scalings: Mapping[str, Scaling] = field(default_factory=dict)
    weights: Doubles | None = None

    @property
    def n_train(self) -> int:
        """Rows that a fit can take."""
        n = len(self.X)
        held = -(-n // self.parts) if self.parts > 1 else min(-(-n // PART), MOST_HELD_OUT)
        return n - held

    def splits(self, rows: int) -> Iterator[tuple[Integers, Integers]]:
        """Yield rows to train on, so many at most, and rows that are held out."""
        n, number = len(self.X), np.arange(len(self.X))
        if self.parts == 1:
            yield number[:rows], number[max(rows, n - MOST_HELD_OUT) :]
            return
        for part in range(self.parts):
            is_held = number % self.parts == part
            yield number[~is_held][:rows], number[is_held]


def draw_sample(
    data: Prepared,
    scalings: Mapping[str, Scaling],
    settings: TrainSettings,
    most: int,
    scheduler: Any = None,
) -> Sample:
    """Read the rows of a search, and no others.

    Parameters
    ----------
    data : Prepared
    scalings : mapping of str to Scaling
        What may be tried.
    settings : TrainSettings
    most : int
        Rows to train on, at most.
    scheduler : str or callable, optional
        Of dask, which reads the rows; its own choice if left out.

    Raises
    ------
    DataError
        If there are too few rows.
    """
    n, order = len(data.target), stratified_order(data.target, settings.seed)
    if n < PART:
        raise DataError(
            f"a search for the kernel needs at least {PART} rows, of which it holds one out, found "
            f"{n}; choose it yourself by `kernel`"
        )
    if n >= FEW:
        order = order[-min(n, most + MOST_HELD_OUT) :]
    wanted = np.sort(order)
    X: Any = data.train.X
    rows = np.asarray(X[wanted].compute(scheduler=scheduler))[np.searchsorted(wanted, order)]
    parts = PARTS if n < FEW else 1
    weights = None if data.train.weights is None else data.train.weights[order]
    return Sample(rows, data.target[order], len(data.classes), parts, scalings, weights)


def stratified_order(target: Integers, seed: int) -> Integers:
    """Return the row numbers (n,) in an order whose every beginning is a stratified sample.

    Rows are ordered by (r + 1/2) / n_k, where row r of n_k in class k is counted along a keyed
    permutation. Every beginning of that order has the classes in the proportions of the whole, and
    so has its end, which is held out.

    Parameters
    ----------
    target : Integers (n,)
        Class codes.
    seed : int
        Key of the permutation.
    """
    n = len(target)
    permuted = np.random.default_rng([seed, n]).permutation(n)
    codes = target[permuted]
    by_class = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(n)
    rank[by_class] = np.arange(n) - np.repeat(starts, sizes)
    return np.asarray(permuted[np.argsort((rank + 0.5) / sizes[codes], kind="stable")])


def run_trial(settings: TrainSettings, sample: Sample, trial: Trial) -> Outcome:
    """Fit the first rows of a sample with a kernel, and compare with the held-out rows.

    With steps, every fit takes its length scales from the one before, which has seen the same rows;
    the best one stands, with the geometric mean of the length scales of all parts.
    Numerical breakdown is an outcome, not an error: the kernel does not suit the data or the
    precision.
    """
    began, best = time.thread_time(), None
    sample = replace(
        sample, X=sample.scalings[trial.scaling].apply(sample.X, settings.dtype), scalings={}
    )
    d, splits = trial.n_active, list(sample.splits(trial.rows))
    chosen = replace(settings, kernel=trial.kernel, n_active=d, report_every=d, metric=trial.metric)
    kernels = [parse(text) for text in trial.starts or [trial.kernel] * len(splits)]
    refined: Sequence[Kernel] = ()
    try:
        with single_threaded_blas():
            for step in range(trial.steps + 1):
                fits = [
                    predict_held_out(chosen, sample, split, kernel)
                    for split, kernel in zip(splits, kernels, strict=True)
                ]
                found = joined(fits, splits, sample.weights)
                if best is None or found.log_p.mean() > best.log_p.mean():
                    best = found
                if (step < trial.steps or trial.by_column) and kernels[0].takes_relevances:
                    kernels = refined = [
                        fit.with_relevances(sample.X[rows[:SLOPE_ROWS]])
                        for fit, (rows, _) in zip(fits, splits, strict=True)
                    ]
    except (NumericalError, SettingsError) as failure:
        if best is None:
            seconds = time.thread_time() - began
            return Outcome(trial.kernel, None, None, None, seconds, str(failure))
    assert best is not None
    return Outcome(
        kernel=str(best.kernel),
        nlpp=-float(best.log_p.mean()),
        error=float(np.mean(~best.right)),
        ece=calibration_error(best.confidence, best.right),
        seconds=time.thread_time() - began,
        refined=tuple(map(str, refined)) if trial.by_column else (),
        log_p=best.log_p,
    )


@dataclass(frozen=True)
class Predictions:
    """A fit as the held-out rows see it.

    Attributes
    ----------
    log_p : Doubles (m,)
        Log probability of the true class.
    confidence : Doubles (m,)
        Probability of the likeliest class.
    right : Booleans (m,)
        Whether that is the true one.
    kernel : Kernel
    posterior : Posterior, optional
    """

    log_p: Doubles
    confidence: Doubles
    right: Booleans
    kernel: Kernel
    posterior: Posterior | None = None

    def with_relevances(self, X: Floats) -> Kernel:
        """Return the kernel with length scales by the slopes of the latent means at X (n, p)."""
        assert self.posterior is not None
        rows, weights = X.astype(np.float64), np.concatenate(self.posterior.weights, axis=1)
        squares = mean_squared_slopes(self.kernel, rows, self.posterior.x[0], weights)
        return with_relevances(self.kernel, squares, rows.var(axis=0))


def joined(
    fits: Sequence[Predictions],
    splits: Sequence[tuple[Integers, Integers]],
    weights: Doubles | None = None,
) -> Predictions:
    """Return one set of predictions, for all rows that were held out of some fit, in order.

    With weights of all rows, log probabilities are multiplied by them, over their mean.
    """
    rows = np.concatenate([held for _, held in splits])
    order = np.argsort(rows)
    log_p, confidence, right = (
        np.concatenate([getattr(fit, name) for fit in fits])[order]
        for name in ("log_p", "confidence", "right")
    )
    if weights is not None:
        own = weights[rows[order]]
        log_p = log_p * (own / own.mean())
    return Predictions(log_p, confidence, right, averaged([fit.kernel for fit in fits]))


def predict_held_out(
    settings: TrainSettings,
    sample: Sample,
    split: tuple[Integers, Integers],
    kernel: Kernel,
) -> Predictions:
    """Fit scaled rows with a kernel, and return what that predicts for those held out.

    Only the probabilities of the true and of the likeliest class are computed. They are not
    normalised over the classes, which would change them by the error of the quadrature.
    """
    rows, held = split
    X, target, X_held = sample.X[rows], sample.target[rows], sample.X[held]
    weights = None if sample.weights is None else sample.weights[rows]
    chosen = replace(settings, kernel=str(kernel))
    model = fit_rows(X, target, chosen, np.arange(sample.n_classes), None, weights)
    mean, variance = model.posterior.latent(X_held, model.scaling.apply)
    mean = mean / model.calibration.temperature
    variance = variance * model.calibration.variance_weight
    likelihood, likeliest = MultinomialProbit(settings.n_nodes), mean.argmax(axis=1)
    log_p = likelihood.log_z(mean, variance, sample.target[held])
    confidence = np.exp(likelihood.log_z(mean, variance, likeliest))
    right = likeliest == sample.target[held]
    return Predictions(log_p, confidence, right, model.posterior.kernels[0], model.posterior)
