"""One trial of a tuning: fit some of the rows with one kernel, and look at rows it has never seen.

A trial is a pure function of its sample and its settings, on one thread, with nothing written and
no dask inside; it runs as well in a thread as in a worker of a cluster.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Scaling, Summary, Table
from sparsegp.errors import DataError, NumericalError, SettingsError
from sparsegp.fit.prepare import Prepared
from sparsegp.fit.training import Training
from sparsegp.kernels import Kernel
from sparsegp.learning.relevances import Sample, mean_squared_slopes, with_relevances
from sparsegp.learning.search import Outcome, Trial
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.posterior.early_stopping import paired_difference
from sparsegp.posterior.predict import Posterior
from sparsegp.report.metrics import calibration_error
from sparsegp.runtime.threads import ThreadRuntime
from sparsegp.settings import TrainSettings
from sparsegp.types import Booleans, Doubles, Floats, Integers

ONE_HELD_OUT_OF, MOST_HELD_OUT = 5, 4000
"""Of the rows, the one in so many that is held out of every trial; and how many, at most."""
SLOPE_ROWS = 2000
"""Rows, at most, at which slopes are taken."""


def draw_sample(
    data: Prepared, settings: TrainSettings, most: int, scheduler: Any = None
) -> Sample:
    """Read the rows of a tuning, scaled, and no others.

    Parameters
    ----------
    data : Prepared
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
    held_out = min(n // ONE_HELD_OUT_OF, MOST_HELD_OUT)
    if held_out < 1:
        raise DataError(
            f"tuning needs at least {ONE_HELD_OUT_OF} rows, of which it holds one out, found {n}; "
            "choose the kernel yourself by --kernel"
        )
    rows, held_rows = order[: min(n - held_out, most)], order[n - held_out :]
    wanted = np.sort(np.concatenate([rows, held_rows]))
    X: Any = data.train.X
    scaled = data.scaling.apply(np.asarray(X[wanted].compute(scheduler=scheduler)), settings.dtype)
    return Sample(
        scaled[np.searchsorted(wanted, rows)],
        data.target[rows],
        scaled[np.searchsorted(wanted, held_rows)],
        data.target[held_rows],
        len(data.classes),
    )


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

    Numerical breakdown is an outcome, not an error: the kernel does not suit the data or the
    precision.
    """
    began, kernel, leads = time.thread_time(), trial.kernel, True
    if trial.rival:
        sample = sample.turned()
    try:
        with single_threaded_blas():
            found = start = predict_held_out(settings, sample, trial)
            rows, last = sample.X[: min(trial.rows, SLOPE_ROWS)], start
            for _ in range(trial.steps):
                wider = last.with_relevances(rows)
                last = predict_held_out(settings, sample, replace(trial, kernel=str(wider)))
                found = max(found, last, key=lambda each: float(each.log_p.mean()))
            if trial.steps:
                kernel, leads = str(found.kernel), found.leads(start)
            if trial.rival:
                rival = predict_held_out(settings, sample, replace(trial, kernel=trial.rival))
                leads = found.leads(rival)
    except (NumericalError, SettingsError) as failure:
        return Outcome(kernel, None, None, None, time.thread_time() - began, str(failure))
    nlpp, error = -float(found.log_p.mean()), float(np.mean(~found.right))
    ece = calibration_error(found.confidence, found.right)
    return Outcome(kernel, nlpp, error, ece, time.thread_time() - began, leads=leads)


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
    posterior : Posterior
    """

    log_p: Doubles
    confidence: Doubles
    right: Booleans
    posterior: Posterior

    @property
    def kernel(self) -> Kernel:
        """The kernel of all classes."""
        return self.posterior.kernels[0]

    def with_relevances(self, X: Floats) -> Kernel:
        """Return the kernel with length scales by the slopes of the latent means at X (n, p)."""
        posterior, rows = self.posterior, X.astype(np.float64)
        weights = np.concatenate(posterior.weights, axis=1)
        squares = mean_squared_slopes(self.kernel, rows, posterior.x[0], weights)
        return with_relevances(self.kernel, squares, rows.var(axis=0))

    def leads(self, other: "Predictions") -> bool:
        """Whether it is better on average by more than a standard error."""
        difference, error = paired_difference(self.log_p, other.log_p)
        return difference > error


def predict_held_out(settings: TrainSettings, sample: Sample, trial: Trial) -> Predictions:
    """Fit with the kernel of a trial, and return what it predicts for the held-out rows.

    Only the probabilities of the true and of the likeliest class are computed. They are not
    normalised over the classes, which would change them by the error of the quadrature.
    """
    some, n_active = sample.first(trial.rows), trial.n_active
    (n, p), none = some.X.shape, np.zeros(some.X.shape[1])
    data = Prepared(
        train=Table(some.X, None, "sample"),  # type: ignore[arg-type] # in memory, and scaled
        classes=np.arange(some.n_classes),
        target=some.target,
        summary=Summary(n, p, none, none, none, none, whole=False),
        scaling=Scaling(none, np.ones(p), "none"),
    )
    chosen = replace(settings, kernel=trial.kernel, n_active=n_active, report_every=n_active)
    with ThreadRuntime(1) as runtime:
        run = Training(data, chosen, runtime=runtime)
        run.build()
        model = run.complete()
    mean, variance = model.posterior.latent(sample.X_held)
    mean = mean / model.calibration.temperature
    variance = variance * model.calibration.variance_weight
    likelihood, likeliest = MultinomialProbit(settings.n_nodes), mean.argmax(axis=1)
    log_p = likelihood.log_z(mean, variance, sample.target_held)
    confidence = np.exp(likelihood.log_z(mean, variance, likeliest))
    return Predictions(log_p, confidence, likeliest == sample.target_held, model.posterior)
