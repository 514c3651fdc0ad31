"""One trial of a search: fit some of the rows with one kernel, and predict held-out rows.

A trial is a pure function of its sample and its settings, on one thread, without writing anything
or using Dask; so it can run in a thread or in a worker of a cluster.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Scaling, unscaled
from sparsegp.data.copies import rank_in_group
from sparsegp.errors import DataError, NumericalError, SettingsError
from sparsegp.fit.prepare import Prepared, stratified_folds
from sparsegp.fit.training import small_fit
from sparsegp.kernels import Constant, Kernel, Product, Sum, parse, six_digits
from sparsegp.learning.approximate import ApproximateFit, FitResult, choose_prior_variance
from sparsegp.learning.by_column import Pace, learn_by_column, with_ard
from sparsegp.learning.linear_rows import is_regression_target, target_log_p
from sparsegp.learning.metric import NONE, Metric, Part, learn_mixing
from sparsegp.learning.plan import MAX_HELD_OUT
from sparsegp.learning.search import SELECTED
from sparsegp.learning.trials import Outcome, Trial
from sparsegp.math.hashing import first_places, hashes_of_rows
from sparsegp.report.metrics import calibration_error
from sparsegp.settings import TrainSettings
from sparsegp.types import Doubles, Floats, Integers

ROWS_PER_HELD_OUT = 5
"""One in this many rows is held out."""
MIN_ROWS_FOR_HELD_OUT, SEARCH_FOLDS = 2000, 3
"""With fewer rows there is cross-validation with this number of folds: a fifth of the rows would be
too few to judge by."""
SLOPE_ROWS = 2000
"""Maximum number of rows at which gradients of latent means are computed."""
ARD_ROWS = 3000
"""Maximum number of rows from which per-column length scales or a metric are learnt."""
ARD_ACTIVE, PACES = (200, 300), (Pace(8), Pace(12))
"""Number of active rows when length scales are learnt, and pace: for classes, and for a regression,
whose targets carry more information."""
BRISK = Pace(7, tolerance=0.002, first=0.7, evenness=2 / 3)
"""Pace for classes with one held-out set, as length scales may be re-estimated later, and for this
re-estimation: the NLPP stays the same (docs/benchmarks/search.md), but not with fewer rows."""
FINAL_TOLERANCE = 0.005
"""Relative gain of an iteration at which re-estimation from all rows stops."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows for a search, ordered so that every contiguous range is a stratified sample."""

    X: Floats  # inputs before scaling (n, p)
    target: Any  # class codes (n,), or standardised targets of a regression
    n_classes: int
    family: Integers  # ascending numbers (n,), equal for rows that are held out together
    parts: int = 1  # number of folds that are held out in turn; if 1, the last rows are held out
    scalings: Mapping[str, Scaling] = field(default_factory=dict)  # by the names of their rules
    weights: Doubles | None = None  # row weights (n,)
    groups: Integers | None = None  # of columns (p,); the indicators of a category share one
    repeats: bool = False  # only one row of each input may become active: see `choose_candidates`
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the inputs that `make` returns, and keep them for trials with the same key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @property
    def n_train(self) -> int:
        """Number of rows available to a fit."""
        n = len(self.X)
        if self.parts > 1:
            return n - -(-n // self.parts)
        return n - min(-(-n // ROWS_PER_HELD_OUT), MAX_HELD_OUT)

    def splits(self, rows: int) -> Iterator[tuple[Integers, Integers]]:
        """Yield row numbers to fit, at most `rows`, and row numbers held out."""
        n, number = len(self.X), np.arange(len(self.X))
        if self.parts == 1:
            rows = min(rows, self.n_train)
            yield number[:rows], number[max(rows, n - MAX_HELD_OUT) :]
            return
        _, first, family = np.unique(self.family, return_index=True, return_inverse=True)
        folds = stratified_folds(self.target[first], self.parts)[family]
        for part in range(self.parts):
            is_held = folds == part
            yield number[~is_held][:rows], number[is_held]


def draw_sample(
    data: Prepared,
    scalings: Mapping[str, Scaling],
    settings: TrainSettings,
    most: int,
    scheduler: Any = None,
    parts: int = 1,
) -> Sample:
    """Read the rows that a search uses, and no others.

    Parameters
    ----------
    data : Prepared
    scalings : mapping of str to Scaling
        Scalings that may be tried.
    settings : TrainSettings
    most : int
        Maximum number of rows to read.
    scheduler : str or callable, optional
        Dask scheduler that reads the rows; Dask's default if omitted.
    parts : int
        Parts to hold out in turn; with fewer than `MIN_ROWS_FOR_HELD_OUT` rows always
        `SEARCH_FOLDS`.

    Raises
    ------
    DataError
        If there are too few rows.
    """
    n, order = len(data.target), stratified_order(data.target, settings.seed)
    if n < ROWS_PER_HELD_OUT:
        raise DataError(
            f"a search for the kernel needs at least {ROWS_PER_HELD_OUT} rows, of which it holds "
            f"one out, found {n}; choose it yourself by `kernel`"
        )
    family = np.arange(n)
    if data.train.families is not None:  # their rows stay together, whatever their number
        _, first, inverse = np.unique(data.families, return_index=True, return_inverse=True)
        place = np.argsort(order)
        of_family = place[first][inverse]  # of its first row; that of the earliest would be biased
        order = np.lexsort((place, of_family))
        family = np.unique(of_family[order], return_inverse=True)[1]
    if n >= MIN_ROWS_FOR_HELD_OUT:
        last = slice(-min(n, most), None)
        order, family = order[last], family[last]
    wanted = np.sort(order)
    X = data.train.X
    rows = np.asarray(X[wanted].compute(scheduler=scheduler))[np.searchsorted(wanted, order)]
    parts = SEARCH_FOLDS if n < MIN_ROWS_FOR_HELD_OUT else parts
    weights = None if data.train.weights is None else data.train.weights[order]
    groups = None if data.train.encoding is None else data.train.encoding.shared
    known = data.target[order], len(data.classes), family
    repeats = data.train.repeats and settings.draws_candidates
    return Sample(rows, *known, parts, scalings, weights, groups, repeats)


def stratified_order(target: Any, seed: int) -> Integers:
    """Return the row numbers (n,) in an order of which every prefix is a stratified sample.

    Rows are sorted by (r + 1/2) / n_k, where r is the rank of a row among the n_k rows of its class
    k in a seeded permutation. So the classes have the same proportions in every prefix, and also
    among the last rows, which are held out. In a regression the order is the permutation itself.

    Parameters
    ----------
    target : array (n,)
        Class codes, or targets of a regression.
    seed : int
        Seed of the permutation.
    """
    n = len(target)
    permuted = np.random.default_rng([seed, n]).permutation(n)
    if is_regression_target(target):
        return permuted
    codes = target[permuted]
    share = (rank_in_group(codes) + 0.5) / np.bincount(codes)[codes]
    return np.asarray(permuted[np.argsort(share, kind="stable")])


def run_trial(settings: TrainSettings, sample: Sample, trial: Trial) -> Outcome:
    """Fit the first rows of a sample with a kernel, and evaluate it on the held-out rows.

    Per-column length scales are learnt from the rows to fit; the outcome has their geometric mean
    over the parts. Numerical breakdown is an outcome, not an error: the kernel does not suit the
    data or the precision.
    """
    began, kernels = time.thread_time(), [parse(trial.kernel)] * sample.parts
    try:
        with single_threaded_blas():
            fits = PartialFits.of(sample, settings, trial)
            if trial.by_column:
                if is_regression_target(sample.target):
                    kernels = [fits.scaled_to_noise(kernels)]
                if trial.again:
                    kernel, nlpp = fits.reestimated(kernels[0], trial)
                    return Outcome(str(kernel), nlpp, None, None, time.thread_time() - began)
                kernels = fits.learnt_by_column(kernels[0])
            elif trial.first:
                split = np.arange(trial.first, trial.first + trial.rows), np.arange(trial.first)
                fits, kernels = replace(fits, inputs=fits.inputs[:1], splits=[split]), kernels[:1]
            elif trial.rung == SELECTED:
                settings = replace(settings, kernel=trial.kernel)
                fits = fits.as_in_a_run(settings, trial.selects)
            found = fits.fit(kernels)
    except (NumericalError, SettingsError) as failure:
        seconds = time.thread_time() - began
        return Outcome(trial.kernel, None, None, None, seconds, str(failure))
    predicted, target, weights = fits.in_order(found.predicted)
    if is_regression_target(target):
        error, ece = float(np.mean(np.square(target - predicted[:, 0]) * weights)), None
    else:
        right = predicted.argmax(axis=1) == target
        ece = calibration_error(np.exp(predicted.max(axis=1)), right, weights)
        error = float(np.mean(~right * weights))
    return Outcome(
        kernel=str(averaged(kernels)),
        nlpp=found.nlpp,
        error=error,
        ece=ece,
        seconds=time.thread_time() - began,
        log_p=target_log_p(predicted, target, weights) * weights,
    )


@dataclass(frozen=True, eq=False)
class PartialFits:
    """Approximate fits to the parts of a sample, each of which holds some rows out."""

    sample: Sample
    inputs: Sequence[Floats]  # scaled inputs of all its rows (n, p), for each part
    splits: Sequence[tuple[Integers, Integers]]  # rows to fit and rows that are held out
    n_active: int

    @classmethod
    def of(cls, sample: Sample, settings: TrainSettings, trial: Trial) -> "PartialFits":
        """Create the fits of a trial, and learn its metric if it has one."""
        splits = list(sample.splits(trial.rows))
        how = trial.scaling, settings.dtype
        X = sample.cached(how, lambda: sample.scalings[trial.scaling].apply(sample.X, how[1]))
        plain = cls(sample, [X] * len(splits), splits, trial.n_active)
        metric = Metric.of(trial.metric)
        if metric is None:
            return plain
        rows, kernel = min(trial.rows, ARD_ROWS), parse(trial.kernel)
        n_active = ARD_ACTIVE[is_regression_target(sample.target)]
        few = replace(plain, splits=list(sample.splits(rows)), n_active=n_active)
        key = *how, metric, kernel, rows
        inputs = sample.cached(key, lambda: [few._mixed(metric, kernel, X, s) for s in few.splits])
        return replace(plain, inputs=inputs)

    def _mixed(
        self, metric: Metric, kernel: Kernel, X: Floats, split: tuple[Integers, Integers]
    ) -> Floats:
        """Learn a metric from the rows to fit, and return the inputs multiplied by it."""
        rows, p = split[0], X.shape[1]

        def mixed(mixing: Doubles) -> Floats:
            scaled: Floats = unscaled(p, mixing).apply(X, X.dtype)
            return scaled

        def fit(mixing: Doubles) -> tuple[Floats, Sequence[Part]]:
            inputs = mixed(mixing)
            some = replace(self, inputs=[inputs], splits=[split])
            return inputs[rows[:SLOPE_ROWS]], some.fit([kernel]).parts

        covariance = np.atleast_2d(np.cov(X[rows].astype(np.float64), rowvar=False))
        return mixed(learn_mixing(metric, covariance, fit))

    def fit(self, kernels: Sequence[Kernel]) -> FitResult:
        """Run the approximate fits, with one kernel for each part."""
        sample, fits = self.sample, []
        for kernel, X, (rows, held) in zip(kernels, self.inputs, self.splits, strict=True):
            weights = None if sample.weights is None else sample.weights[rows].astype(X.dtype)
            of_rows = X[rows], sample.target[rows], sample.n_classes
            fits.append(ApproximateFit(kernel, *of_rows, self.n_active, X[held], weights))
        held = self._held
        weights = None if sample.weights is None else sample.weights[held]
        return choose_prior_variance(fits, sample.target[held], weights)

    def as_in_a_run(self, settings: TrainSettings, selects: bool) -> "PartialFits":
        """Return the same fits with the candidates of a run, and active rows selected or random."""
        sample, classes, splits = self.sample, np.arange(self.sample.n_classes), []
        for X, (rows, held) in zip(self.inputs, self.splits, strict=True):
            able = np.arange(len(rows))
            if sample.repeats:
                able = first_places(hashes_of_rows(X[rows]))
            chosen = able[: self.n_active]
            if selects:
                of = rows[able]
                weights = None if sample.weights is None else sample.weights[of]
                of_rows = X[of], sample.target[of], classes, weights
                with small_fit(settings, self.n_active, *of_rows) as fit:
                    fit.select()
                    chosen = able[fit.active.rows]
            rest = np.delete(np.arange(len(rows)), chosen)
            splits.append((rows[np.concatenate([chosen, rest])], held))
        return replace(self, splits=splits)

    @property
    def _held(self) -> Integers:
        return np.concatenate([held for _, held in self.splits])

    def scaled_to_noise(self, kernels: Sequence[Kernel]) -> Kernel:
        """Scale the kernel, the same for all parts, for a noise variance of one.

        Its variance becomes at least one: with a kernel that explains nothing, gradients vanish.
        """
        variance = float(kernels[0].diag(self.inputs[0][:SLOPE_ROWS]).mean())
        return scaled(kernels[0], max(self.fit(kernels).scale, 1.0 / (variance or 1.0)))

    def learnt_by_column(self, kernel: Kernel) -> list[Kernel]:
        """Return the kernel of each part, with per-column length scales learnt from its rows."""
        is_regression = is_regression_target(self.sample.target)
        pace = self._brisk if self.sample.parts == 1 else PACES[is_regression]
        kernel = with_ard(kernel, self.sample.X.shape[1])
        parts = zip(self.inputs, (rows[:ARD_ROWS] for rows, _ in self.splits), strict=True)
        n_active = ARD_ACTIVE[is_regression]
        return [self._learnt(kernel, X, rows, n_active, pace)[0] for X, rows in parts]

    def reestimated(self, kernel: Kernel, trial: Trial) -> tuple[Kernel, float]:
        """Return the kernel re-estimated from rows of all parts, and its two-fold NLPP.

        With a metric there are no per-column length scales. The estimate from all rows starts near
        the optimum, so it stops at a larger gain.
        """
        if trial.metric == NONE:
            kernel = with_ard(kernel, self.sample.X.shape[1])
        rows, pace = np.arange(trial.first, trial.first + trial.rows), self._brisk
        if not trial.first:
            pace = pace._replace(tolerance=FINAL_TOLERANCE)
        return self._learnt(kernel, self.inputs[0], rows, trial.n_active, pace)

    @property
    def _brisk(self) -> Pace:
        """Pace with one held-out set, and of re-estimation."""
        return PACES[1] if is_regression_target(self.sample.target) else BRISK

    def _learnt(
        self, kernel: Kernel, X: Floats, rows: Integers, n_active: int, pace: Pace
    ) -> tuple[Kernel, float]:
        """Run `learn_by_column` on some rows of the sample; X are the inputs of all rows."""
        sample = self.sample
        weights = np.ones(len(rows)) if sample.weights is None else sample.weights[rows]
        of_rows = X[rows], sample.target[rows], weights, sample.groups
        return learn_by_column(kernel, *of_rows, n_active=n_active, pace=pace)

    def in_order(self, predicted: Doubles) -> tuple[Doubles, Any, Doubles]:
        """Return predictions, targets, and weights divided by their mean, in the order of rows."""
        held = np.sort(self._held)
        weights = np.ones(len(held)) if self.sample.weights is None else self.sample.weights[held]
        return predicted[np.argsort(self._held)], self.sample.target[held], weights / weights.mean()


def scaled(kernel: Kernel, factor: float) -> Kernel:
    """Return the kernel times a factor, merged into the constants of its terms where possible."""
    if isinstance(kernel, Sum):
        return Sum(tuple(scaled(part, factor) for part in kernel.parts))
    if isinstance(kernel, Product) and isinstance(kernel.parts[0], Constant):
        return Product((Constant(kernel.parts[0].value * factor), *kernel.parts[1:]))
    return factor * kernel


def averaged(kernels: Sequence[Kernel]) -> Kernel:
    """Return a kernel of the same form with geometric mean parameters, to six digits."""
    if len(set(kernels)) == 1:
        return kernels[0]
    logs = np.mean([each.parameters() for each in kernels], axis=0)
    return parse(six_digits(str(kernels[0].with_parameters(logs))))
