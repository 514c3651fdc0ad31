"""The sparse fit, stage by stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsegp.data import Numbers, Summary, Table, unscaled
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.fit.blocks import SparseRun
from sparsegp.fit.learning import learn
from sparsegp.fit.prepare import Prepared
from sparsegp.learning.metric import MAX_METRIC_COLUMNS, NONE, Metric, Part, learn_mixing
from sparsegp.likelihoods import Gaussian
from sparsegp.math.quantiles import Quantiles
from sparsegp.model import SparseModel
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.posterior.limits import prior_shares
from sparsegp.runtime.threads import ThreadRuntime
from sparsegp.settings import TrainSettings
from sparsegp.state import require_shapes
from sparsegp.types import Doubles, Floats, Integers, Labels

MAX_DRAWN = 1000
"""Maximum number of rows from which the quantiles for novelty are computed."""
METRIC_ROWS, METRIC_ACTIVE = 5000, 500
"""Maximum numbers of rows and active rows in the small fits from which a metric is learnt, even if
the run has fewer active rows, with which gradients would be noise."""


@dataclass(eq=False)
class Training(SparseRun):
    """One sparse fit, stage by stage: `build`, `learn`, `select`, `finish`; or all of it by `fit`.

    Parameters and attributes are those of `Run` and `SparseRun`.
    """

    def build(self) -> None:
        """Learn the metric, if the settings ask for one, and build the row blocks."""
        if self.settings.metric != NONE and self.data.scaling.mixing is None:
            if (stored := self.newest()) is None:
                mixing = learn_metric(self)
            else:  # for the same bits
                require_shapes(stored.arrays, {"mixing": (self.data.summary.p,) * 2})
                mixing = stored.arrays["mixing"]
            scaling = replace(self.data.scaling, mixing=mixing)
            self.data = replace(self.data, scaling=scaling)
        super().build()

    def complete(self) -> SparseModel:
        """Learn, select, and return the model."""
        self.learn()
        self.select()
        return self.finish(keep_blocks=False)

    def learn(self) -> None:
        """Learn kernels and likelihood, if the settings say so; see `fit.learning.learn`."""
        if self.settings.learn != "none" and (self.in_step or not len(self.active)):
            learn(self)

    def select(self) -> None:
        """Include the remaining active rows, recording history and checkpoints on the way.

        Raises
        ------
        Interrupted
            If a stop was requested; the progress is in a checkpoint.
        NumericalError
            If no row can be included.
        """
        every, before = self.settings.report_every, len(self.active)
        self.progress.start(self.n_active, "rows", "select")
        self.progress.update(before)
        for count in self.include(every):
            if count // every > before // every or count == self.n_active:
                self._add_to_history()
            before = count
            self.progress.update(count)
        if not len(self.active):
            raise NumericalError(
                f"no row has a site of precision above {self.settings.epsilon:g} to be included "
                "by; use another kernel, a smaller `epsilon` or larger weights of rows"
            )
        if len(self.active) < self.n_active:
            self.progress.message(
                f"{len(self.active)} rows included: no other candidate has a site of precision "
                f"above {self.settings.epsilon:g} and latent variance left in "
                f"{self.settings.precision}"
            )
            self.n_active = len(self.active)
            self._add_to_history()
            self.checkpoint(self.done, due=True)
        self.progress.finish()

    def _add_to_history(self) -> None:
        found = self.figures()
        for name, value in found.items():
            if not np.isfinite(value):
                raise NumericalError(
                    f"{name} must be finite, got {value} with {len(self.active)} active rows; give "
                    "less extreme parameters of the kernel, another scaling, or test rows with "
                    "labels nearer to those of the training rows"
                )
        point = {"n_active": len(self.active), "seconds": round(self.seconds(), 3)}
        self.history.append({**point, **found})

    def finish(self, keep_blocks: bool = True) -> SparseModel:
        """Compute the posterior, and create and save the model.

        Parameters
        ----------
        keep_blocks : bool
            Whether the row blocks are kept for inspection; otherwise their memory is released as
            soon as possible.

        Raises
        ------
        Interrupted
            If a stop was requested; the progress is in a checkpoint.
        """
        active = ActiveRows.of(self.block_settings, self.active)
        self.progress.start(0, "rounds", "posterior")
        weights = POSTERIORS[self.settings.posterior](active, self)
        weights.report.update(
            rows=self.data.first_row + self.data.n_given,
            validation_rows=int(self.validation.sum()),
            weight=self.data.first_weight + self.total,
        )
        if self.steps:
            weights.report["learning"] = self.steps
        drawn = self._drawn_rows()
        each = [rows for rows, _ in self.map_blocks("labelled_rows", drawn)]
        x = np.concatenate(each, dtype=np.float64)
        self.progress.finish()
        if not keep_blocks:
            self.runtime.build(self.block_type, [])
        if (noise := weights.report.get("noise_variance")) is not None:
            active = replace(active, likelihood=Gaussian(noise))
        model = SparseModel(
            active=active,
            weights=weights,
            rows=self._row_numbers(),
            settings=self.settings.to_json(),
            history=tuple(self.history),
            **self.data.model_fields,
        )
        if self.keeps_scores:
            model = replace(model, shares=self._shares(model, drawn, x))
        return self.save(model)

    def _row_numbers(self) -> Integers:
        """Return the row numbers of the active rows in the source; past rows come first."""
        data, rows = self.data, self.active.rows
        if data.train.rows is not None:
            rows = np.where(rows < 0, rows, data.train.rows[np.maximum(rows, 0)])
        return np.asarray(data.first_row + rows)

    def _drawn_rows(self) -> Integers:
        """Draw numbers of validation rows, or of any rows if there are none, in ascending order."""
        pool = np.arange(self.n_rows)
        if self.validation.any():
            pool = np.flatnonzero(self.validation)
        rng = np.random.default_rng([self.settings.seed, self.n_rows])
        return np.sort(rng.permutation(pool)[:MAX_DRAWN])

    def _shares(self, model: SparseModel, drawn: Integers, x: Doubles) -> Quantiles:
        """Return quantiles of the share of the prior variance left at the drawn rows x (m, p).

        For an active row it is what the other active rows of its predicted class leave. Without
        validation rows, quantiles of past rows are returned if there are any.
        """
        if self.past is not None and self.past.shares is not None and not self.validation.any():
            return self.past.shares
        codes, rows = model.most_probable_codes(x), self.active.rows
        shares = prior_shares(model.spans, x, codes)
        for code, span in enumerate(model.spans):
            _, places, own = np.intersect1d(drawn, rows[span.places], return_indices=True)
            alike = codes[places] == code
            if alike.any():
                shares[places[alike]] = span.left_out_shares()[own[alike]]
        return Quantiles.of(shares)


def learn_metric(run: Training) -> Doubles:
    """Learn the matrix by which scaled inputs are multiplied, (p, p), from fits to some rows.

    These run on one thread of this process, so the result does not depend on the runtime.

    Raises
    ------
    SettingsError
        If there are too many columns.
    """
    data, settings, p = run.data, run.settings, run.data.summary.p
    metric = Metric.of(settings.metric)
    assert metric is not None
    if p > MAX_METRIC_COLUMNS:
        raise SettingsError(
            f"metric=full is for at most {MAX_METRIC_COLUMNS} columns, found {p}; leave it out"
        )
    others = np.flatnonzero(~run.validation)
    rng = np.random.default_rng([settings.seed, run.n_rows, METRIC_ROWS])
    rows = others[np.sort(rng.permutation(len(others))[:METRIC_ROWS])]
    X: Any = data.train.X
    x = data.scaling.apply(X[rows].compute(scheduler=run.runtime.scheduler()))
    covariance = np.atleast_2d(np.cov(x, rowvar=False))

    def fit_mixed(mixing: Doubles) -> tuple[Floats, list[Part]]:
        mixed = unscaled(p, mixing).apply(x, settings.dtype)
        found = _fit_rows(run, rows, mixed).posterior
        return mixed, list(zip(found.kernels, found.x, found.weights, strict=True))

    run.progress.start(metric.rounds, "rounds", "metric")
    mixing = learn_mixing(metric, covariance, fit_mixed, run.progress.update)
    run.progress.finish()
    return mixing


def _fit_rows(run: Training, rows: Integers, X: Floats) -> SparseModel:
    """Fit some rows of a run, with scaled inputs X (n, p)."""
    weights = None if run.weights is None else run.weights[rows]
    of_rows = X, run.data.target[rows], run.data.classes, weights, run.data.numbers
    with small_fit(run.settings, METRIC_ACTIVE, *of_rows) as fit:
        return fit.complete()


@contextmanager
def small_fit(
    settings: TrainSettings,
    n_active: int,
    X: Floats,
    target: Any,
    classes: Labels,
    weights: Doubles | None = None,
    numbers: Numbers | None = None,
) -> Iterator[Training]:
    """Yield a fit of scaled inputs X (n, p) in memory, on one thread, that writes nothing.

    The arguments after X are as in `Prepared`, and the weights (n,) as in `Table`.
    """
    (n, p), none = X.shape, np.zeros(X.shape[1])
    small = replace(settings, metric=NONE, stub_entries=None, candidates=None)
    small = replace(small, n_active=n_active, report_every=n_active)
    small = replace(small, n_active=min(n_active, n - small.n_validation(n)))
    data = Prepared(
        train=Table(X, None, "", weights=weights),
        classes=classes,
        target=target,
        summary=Summary(n, p, none, none, none, X.var(axis=0, dtype=np.float64), whole=False),
        scaling=unscaled(p),
        numbers=numbers,
    )
    with ThreadRuntime(1) as runtime:
        fit = Training(data, small, runtime=runtime, keeps_scores=False)
        fit.build()
        yield fit
