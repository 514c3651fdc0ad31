"""From tables to what a fit needs: class codes, statistics, scaling, validation rows."""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from sparsegp.data import (
    Dataset,
    Numbers,
    Scaling,
    Summary,
    Table,
    effective_rows,
    encode_labels,
    encode_with,
    scaling_for,
    summarise,
)
from sparsegp.errors import SettingsError
from sparsegp.likelihoods import SiteRule
from sparsegp.runtime import Runtime
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.types import Booleans, Doubles, Floats, Integers, Labels

MOST_DRAWN = 10_000
"""Rows that a rule of scaling may look at."""
MOST_FOLDS = 5
"""Of a cross-validation; ten take twice as long and are as good."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """Data ready for row blocks.

    Attributes
    ----------
    train : Table
    classes : Labels (K,)
        None in a regression.
    target : array (n,)
        Class codes, or standardised numbers.
    summary : Summary
    scaling : Scaling
    held_out : Table or None
    held_out_target : array (m,) or None
        The same of the held-out rows; -1 for labels that training has not seen.
    numbers : Numbers or None
        How the labels of a regression were standardised.
    n_given : int
        Training rows as they came, before copies were merged.
    first_row : int
        The number of the first of them: how many rows are gone.
    """

    train: Table
    classes: Labels
    target: Any
    summary: Summary
    scaling: Scaling
    held_out: Table | None = None
    held_out_target: Any = None
    numbers: Numbers | None = None
    n_given: int = 0
    first_row: int = 0

    @property
    def scaled_variances(self) -> Doubles:
        """Variances of the scaled input columns, (p,)."""
        return self.scaling.variances(self.summary)

    @property
    def of_model(self) -> dict[str, Any]:
        """What a model keeps of the data, by the names of its fields."""
        train = self.train
        return {
            "classes": self.classes,
            "scaling": self.scaling,
            "numbers": self.numbers,
            "names": train.names,
            "encoding": train.encoding,
            "medians": train.medians,
            "label": train.label,
            "id_column": next(iter(train.beside), None),
        }

    def to_json(self) -> dict[str, Any]:
        """Return what identifies the training data."""
        digest = hashlib.blake2b(self.target.tobytes(), digest_size=16)
        if self.train.weights is not None:
            digest.update(self.train.weights.tobytes())
        for values in (self.summary.low, self.summary.high, self.summary.mean):
            digest.update(np.asarray(values).tobytes())
        if self.train.encoding is not None:
            digest.update(json.dumps(self.train.encoding.to_json()).encode())
        return {
            "rows": self.summary.n,
            "columns": self.summary.p,
            "classes": self.classes.tolist(),
            "digest": digest.hexdigest(),
        }


def prepare(
    train: Table,
    held_out: Table | None,
    settings: TrainSettings | DenseSettings,
    runtime: Runtime,
    check: Callable[[int], None] = lambda n_classes: None,
) -> Prepared:
    """Encode the labels, look through the inputs once and choose their scaling.

    Copies are merged first where rows have weights. Scaling looks at each row once, whatever it
    weighs, and so does the standardisation of numbers.

    A run in the threads of this process also looks through them there, whatever dask would use.

    Parameters
    ----------
    train, held_out : Table
    settings : TrainSettings or DenseSettings
    runtime : Runtime
    check : callable
        Called with the number of classes before any row is read.

    Raises
    ------
    DataError
        If the rows cannot be learnt from.
    """
    scheduler = runtime.scheduler()
    train = train.learnt(scheduler, settings.is_regression)
    n_given = count_given(train)
    target: Any
    numbers: Numbers | None
    class_weight = getattr(settings, "class_weight", "")
    if train.weights is not None or class_weight:
        if not settings.heeds_weights:
            raise SettingsError(
                "weights of rows are for method=ivm with learn=none, or for its regression; leave "
                "them out"
            )
        train = effective_rows(train, class_weight, scheduler)
    if settings.is_regression:
        numbers = Numbers.of(train.y, train.source)
        classes: Labels = np.empty(0)
        target = numbers.encode(train.y, train.source)
    else:
        numbers, (classes, target) = None, encode_labels(train)
    check(len(classes))
    summary = summarise(train.X, train.source, scheduler, train.names, train.rows)
    held_out_target: Any = None
    if held_out is not None:
        held_out = held_out.encoded_for(train.encoding, train.names, train.medians)
        Dataset(train, held_out)  # refuses other columns
        summarise(held_out.X, held_out.source, scheduler, held_out.names)
        if numbers is not None:
            held_out_target = numbers.encode(held_out.y, held_out.source)
        else:
            held_out_target, unseen = encode_with(classes, held_out.y, held_out.source)
            if unseen:
                logger.warning(
                    "%s has labels that %s has not: %s; they count as errors",
                    held_out.source,
                    train.source,
                    ", ".join(map(repr, unseen)),
                )

    scaling = choose_scaling(settings.scaling, train, summary, settings, scheduler)
    held = held_out, held_out_target
    return Prepared(train, classes, target, summary, scaling, *held, numbers, n_given=n_given)


def site_rule(settings: TrainSettings, n_classes: int) -> SiteRule:
    """Return the likelihood for so many classes, and its sites.

    Raises
    ------
    SettingsError
        If the settings are for another number of classes.
    """
    likelihood = settings.start_likelihood(n_classes)
    several, moments = likelihood.n_latent(n_classes) > 1, settings.sites == "moments"
    if moments and several and not settings.kernel_per_class:
        raise SettingsError(
            f"sites=moments of likelihood={settings.likelihood} differ from class to class, so "
            "each needs a kernel of its own; give kernel_per_class=True"
        )
    if settings.kernel_per_class:  # raises where there are too many classes for moments
        zero = np.zeros((1, likelihood.n_latent(n_classes)))
        likelihood.log_z(zero, zero + 1.0, np.zeros(1, np.int64))
    if settings.learn == "evidence" and several and settings.strategy != "constant":
        raise SettingsError(
            f"strategy={settings.strategy} is for likelihoods of one latent value, got "
            f"{settings.likelihood}; give strategy=constant"
        )
    return SiteRule(likelihood, settings.sites, settings.epsilon if moments else 0.0)


def count_given(table: Table) -> int:
    """Return how many rows there were before some were left out, as far as is known."""
    return len(table.X) if table.rows is None else int(table.rows.max()) + 1


def choose_scaling(
    rule: str,
    train: Table,
    summary: Summary,
    settings: TrainSettings | DenseSettings,
    scheduler: Any,
) -> Scaling:
    """Return the scaling of the training rows by a rule."""
    draw = partial(draw_rows, train, summary, settings, scheduler)
    kept = None if train.encoding is None else train.encoding.indicates
    return scaling_for(rule, summary, draw, kept)


def draw_rows(
    train: Table, summary: Summary, settings: TrainSettings | DenseSettings, scheduler: Any
) -> Floats:
    """Return some training rows (m, p) for the rules of scaling, chosen by the seed alone."""
    rng = np.random.default_rng([settings.seed, summary.n])
    X: Any = train.X
    rows = np.sort(rng.permutation(summary.n)[:MOST_DRAWN])
    return np.asarray(X[rows].compute(scheduler=scheduler))


def choose_validation_rows(
    n: int, settings: TrainSettings, origin: Integers | None = None, keeps_scale: bool = False
) -> Booleans:
    """Return which training rows serve for validation first, (n,), by a keyed permutation.

    A row and its copies do so together or not at all, since a row that is much like those learnt
    from tells too little. With copies they may be a few rows less.

    Parameters
    ----------
    n : int
    settings : TrainSettings
    origin : Integers (n,), optional
        Where there are copies: for each row the number of its original.
    keeps_scale : bool
        See `TrainSettings.n_validation`.
    """
    rng, wanted = np.random.default_rng([settings.seed, n]), settings.n_validation(n, keeps_scale)
    family, sizes = _families(n, origin)
    chosen = np.zeros(len(sizes), dtype=bool)
    for one in rng.permutation(len(sizes)):
        if wanted == 0:
            break
        if sizes[one] <= wanted:
            chosen[one] = True
            wanted -= sizes[one]
    return np.asarray(chosen[family])


def choose_candidates(
    data: Prepared, validation: Booleans, settings: TrainSettings, n_active: int
) -> Integers | None:
    """Return the rows that may become active, in order, by a keyed permutation; None if all may.

    Of every class there are half an equal share, or all rows.

    Parameters
    ----------
    data : Prepared
    validation : Booleans (n,)
    settings : TrainSettings
    n_active : int
        Rows to include.
    """
    n = len(validation)
    wanted = settings.n_candidates(n, n_active)
    if wanted >= n - int(validation.sum()):
        return None
    rows = np.random.default_rng([settings.seed, n, 2]).permutation(np.flatnonzero(~validation))
    chosen = [rows[:wanted]]
    if not settings.is_regression:
        share = -(-wanted // (2 * len(data.classes)))
        codes = data.target[rows]
        by_class = np.argsort(codes, kind="stable")
        places = np.searchsorted(codes[by_class], np.arange(len(data.classes) + 1))
        chosen += [rows[by_class[i : min(i + share, j)]] for i, j in pairwise(places)]
    return np.unique(np.concatenate(chosen))


def choose_folds(target: Any, settings: TrainSettings, origin: Integers | None = None) -> Integers:
    """Return the folds of the rows (n,), where there are too few for validation rows; else none.

    Each fold has its share of every class. A row and its copies are in one fold.

    Parameters
    ----------
    target : Integers (n,)
        Class codes.
    settings : TrainSettings
    origin : Integers (n,), optional
        Where there are copies: for each row the number of its original.
    """
    n = len(target)
    if not settings.keeps_validation_rows or settings.n_validation(n):
        return np.empty(0, dtype=np.int64)
    family, sizes = _families(n, origin)
    first = np.unique(family, return_index=True)[1]
    permuted = np.random.default_rng([settings.seed, n]).permutation(len(sizes))
    dealt = permuted[np.argsort(target[first[permuted]], kind="stable")]
    folds = np.empty(len(sizes), dtype=np.int64)
    folds[dealt] = np.arange(len(sizes)) % MOST_FOLDS
    return np.asarray(folds[family])


def _families(n: int, origin: Integers | None) -> tuple[Integers, Integers]:
    """Return the family of each row (n,), it and its copies, and the rows of each family."""
    if origin is None:
        return np.arange(n), np.ones(n, dtype=np.int64)
    _, family, sizes = np.unique(origin, return_inverse=True, return_counts=True)
    return family, sizes
