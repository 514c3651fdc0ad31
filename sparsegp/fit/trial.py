"""One trial of a tuning: fit some of the rows with one kernel, and look at rows it has never seen.

A trial is a pure function of its sample and its settings, on one thread, with nothing written and
no dask inside; it runs as well in a thread as in a worker of a cluster.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Scaling, Summary, Table
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.fit.prepare import Prepared
from sparsegp.fit.training import Training
from sparsegp.learning.relevances import Sample, refine
from sparsegp.learning.search import Outcome, Trial
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.posterior.early_stopping import paired_difference
from sparsegp.report.metrics import calibration_error
from sparsegp.runtime.threads import ThreadRuntime
from sparsegp.settings import TrainSettings
from sparsegp.types import Doubles

SEARCH_ROWS, SEARCH_ACTIVE = 2000, 200
"""Size of the search for a length scale for every column, at most."""


def run_trial(settings: TrainSettings, sample: Sample, trial: Trial) -> Outcome:
    """Fit the first rows of a sample with a kernel, and compare with the held-out rows.

    Numerical breakdown is an outcome, not an error: the kernel does not suit the data or the
    precision, or has no length scale that could be one for every column.
    """
    began, kernel = time.thread_time(), trial.kernel
    if trial.rival:
        sample = sample.turned()
    try:
        with single_threaded_blas():
            found, leads = held_out(settings, sample, trial), True
            if trial.steps:
                # of the trial that this begins at, only means over the rows were kept
                kernel, start = refined(settings, sample, trial), found
                found = held_out(settings, sample, replace(trial, kernel=kernel))
                leads = found.leads(start)
            if trial.rival:
                rival = held_out(settings, sample, replace(trial, kernel=trial.rival))
                leads = found.leads(rival)
    except (NumericalError, SettingsError) as failure:
        return Outcome(kernel, None, None, None, time.thread_time() - began, str(failure))
    nlpp, error = -float(found.log_p.mean()), float(np.mean(~found.right))
    ece = calibration_error(found.confidence, found.right)
    return Outcome(kernel, nlpp, error, ece, time.thread_time() - began, leads=leads)


def refined(settings: TrainSettings, sample: Sample, trial: Trial) -> str:
    """Return the kernel with a length scale for every column, found on some of the rows."""
    some = sample.first(min(trial.rows, SEARCH_ROWS))
    n_active = min(trial.n_active, SEARCH_ACTIVE)
    return refine(some, trial.kernel, n_active, settings.seed, trial.steps)


@dataclass(frozen=True)
class HeldOut:
    """Predictions of the held-out rows.

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
        """Whether it is better on average by more than a standard error."""
        difference, error = paired_difference(self.log_p, other.log_p)
        return difference > error


def held_out(settings: TrainSettings, sample: Sample, trial: Trial) -> HeldOut:
    """Fit with the kernel of a trial, and return what it predicts for the held-out rows.

    Only the probabilities of the true and of the likeliest class are computed. They are not
    normalised over the classes, which would change them by the error of the quadrature.
    """
    n = trial.n_active
    chosen = replace(settings, kernel=trial.kernel, n_active=n, report_every=n)
    with ThreadRuntime(1) as runtime:
        run = Training(prepared(sample.first(trial.rows)), chosen, runtime=runtime)
        run.build()
        model = run.make_model()
    mean, variance = model.posterior.latent(sample.X_held)
    mean = mean / model.calibration.temperature
    variance = variance * model.calibration.variance_weight
    likelihood, likeliest = MultinomialProbit(settings.n_nodes), mean.argmax(axis=1)
    log_p = likelihood.log_z(mean, variance, sample.target_held)
    confidence = np.exp(likelihood.log_z(mean, variance, likeliest))
    return HeldOut(log_p, confidence, likeliest == sample.target_held)


def prepared(sample: Sample) -> Prepared:
    """Return the rows to train on, which are scaled already, ready for a fit."""
    n, p = sample.X.shape
    none, one = np.zeros(p), np.ones(p)
    return Prepared(
        train=Table(sample.X, None, "sample"),  # type: ignore[arg-type] # in memory
        classes=np.arange(sample.n_classes),
        target=sample.target,
        summary=Summary(n, p, none, none, none, none, whole=False),
        scaling=Scaling(none, one, "none"),
    )
