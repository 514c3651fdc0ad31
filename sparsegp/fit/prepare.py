"""Prepare tables for a fit: class codes, statistics, scaling, validation rows and folds."""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from sparsegp.data import (
    Dataset,
    Numbers,
    Scaling,
    Summary,
    Table,
    effective_rows,
    known_codes,
    scaling_for,
    summarise,
)
from sparsegp.data.blocks import compute_each
from sparsegp.data.column import CODE_PARTS, DATE_PARTS, MEAN, MISSING, RARE, YEAR
from sparsegp.data.copies import rank_in_group
from sparsegp.data.labels import warn_of_single_rows
from sparsegp.data.table import MIN_IDS
from sparsegp.errors import SettingsError
from sparsegp.kernels import ColumnNames
from sparsegp.learning.linear_rows import is_regression_target
from sparsegp.likelihoods import SiteRule
from sparsegp.lists import join_first
from sparsegp.math.hashing import first_places, hashes_of_rows
from sparsegp.memory import DRAWN_ROWS
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.types import Booleans, Doubles, Floats, Integers, Labels

logger = logging.getLogger(__name__)

N_FOLDS = 5
"""Number of cross-validation folds; ten take twice as long and are no better."""
MANY_COPIES = 0.05
"""Share of copies among the rows above which they raise a warning."""
MOST_UNLIKE = 1e7
"""Ratio of row weights above which single precision, 1.2e-7, is worth a warning."""


@dataclass(frozen=True)
class Prepared:
    """Data ready for row blocks."""

    train: Table
    classes: Labels  # (K,), empty in a regression
    target: Any  # class codes (n,), or standardised targets of a regression
    summary: Summary
    scaling: Scaling
    held_out: Table | None = None  # test rows
    held_out_target: Any = None  # theirs, (m,); -1 for labels that do not occur in training
    numbers: Numbers | None = None  # how the targets of a regression were standardised
    n_given: int = 0  # number of training rows before copies were merged
    first_row: int = 0  # number of earlier rows, which are no longer available
    first_weight: float = 0.0  # sum of their weights

    @property
    def has_fewer_rows(self) -> bool:
        """Whether copies were merged, or rows of weight zero left out."""
        return self.train.weights is not None or self.summary.n < self.n_given

    @cached_property
    def families(self) -> Integers:
        """Number of each row, from 0, the same for rows to be held out together, (n,).

        See `Table.families`; an id that all rows of a class share does not join these.
        """
        families, origin = self.train.families, self.train.origin
        if families is None:
            return np.arange(self.summary.n)
        if families is not origin and len(self.classes):
            of_classes = np.unique(np.column_stack([families, self.target]), axis=0)[:, 1]
            has_one = np.bincount(of_classes, minlength=len(self.classes))[self.target] == 1
            each = np.arange(len(families)) if self.train.rows is None else self.train.rows
            if origin is not None:  # copies, and parts of a soft label, stay together
                each = origin
            families = np.where(np.isin(each, each[has_one]), families.max() + 1 + each, families)
        return np.unique(families, return_inverse=True)[1]

    @property
    def scaled_variances(self) -> Doubles:
        """Variances of the scaled input columns, (p,)."""
        return self.scaling.variances(self.summary)

    @property
    def model_fields(self) -> dict[str, Any]:
        """Fields of a model that describe the data, by name."""
        train = self.train
        return {
            "classes": self.classes,
            "scaling": self.scaling,
            "numbers": self.numbers,
            "names": train.names,
            "encoding": train.encoding,
            "medians": train.medians,
            "label": train.label,
            "id_column": next(iter(train.beside), None) or None,  # "" for groups
            "weight_column": train.weight_column,
            "missing": train.missing or None,
        }

    def identity(self, scheduler: Any) -> dict[str, Any]:
        """Return what identifies the training data, after reading all rows."""
        train, digest = self.train, hashlib.blake2b(self.target.tobytes(), digest_size=16)
        for part in compute_each(hashes_of_rows, train.X.to_delayed().ravel(), scheduler=scheduler):
            digest.update(part.tobytes())
        for array in (train.weights, train.rows, train.families if train.beside else None):
            digest.update(b"" if array is None else array.tobytes())
        names = train.names if train.encoding is None else train.encoding.to_json()
        units = None if self.numbers is None else [self.numbers.offset, self.numbers.scale]
        of_columns = [names, train.label, [*train.beside], train.weight_column]
        digest.update(json.dumps([of_columns, self.n_given, units]).encode())
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
    scheduler: Any = None,
    check: Callable[[int], None] = lambda n_classes: None,
) -> Prepared:
    """Encode the labels, compute statistics of the inputs in one pass, and choose their scaling.

    Copies are merged first wherever rows may have weights, as choices are judged by left-out rows,
    which their copies would predict. Scaling and standardisation of targets count each remaining
    row once, whatever its weight.

    Parameters
    ----------
    train, held_out : Table
        Training and test rows.
    settings : TrainSettings or DenseSettings
    scheduler : str or callable, optional
        Dask scheduler that reads the rows; Dask's default if omitted.
    check : callable
        Called with the number of classes before the statistics are computed.

    Raises
    ------
    DataError
        If the rows cannot be learnt from.
    SettingsError
        If there are weights, and the method does not support them.
    """
    train = train.learnt(scheduler, settings.is_regression)
    for ids in train.beside.values():
        if len(ids) > (n_ids := len(np.unique(ids))) and n_ids < MIN_IDS:
            message = "%s has fewer than %d ids or groups, too few to heed when rows are held out"
            logger.warning(message, train.source, MIN_IDS)
    n_given = count_original_rows(train)
    if not settings.is_regression:  # before copies are merged and classes are weighted
        warn_of_single_rows(train.y, train.counts, train.source, train.classes)
    class_weight = getattr(settings, "class_weight", "")
    if settings.supports_weights:
        n, has_weights = len(train.X), train.weights is not None or bool(class_weight)
        train = effective_rows(train, class_weight, scheduler, settings.is_regression)
        if (n_merged := n - len(train.X)) > MANY_COPIES * n and not has_weights:
            message = "%d of %d rows of %s have the inputs and the label of others: %s"
            logger.warning(message, n_merged, n, train.source, "they are merged as copies")
        warn_of_unlike(train.weights, settings.to_json()["precision"])
    elif train.weights is not None or class_weight:
        raise SettingsError(
            "weights of rows are for method=ivm with learn=none, or for its regression; leave them "
            "out"
        )
    numbers = Numbers.of(train.y, train.source) if settings.is_regression else None
    target: Any
    if numbers is None:
        classes, target = train.codes()
    else:
        classes, target = np.empty(0), numbers.encode(train.y, train.source)
    check(len(classes))
    summary = summarise(train, scheduler)
    held_out_target: Any = None
    if held_out is not None:
        held_out = held_out.encoded_for(train)
        Dataset(train, held_out)  # raises an error if columns differ
        summarise(held_out, scheduler)
        if numbers is not None:
            held_out_target = numbers.encode(held_out.y, held_out.source)
        else:
            held_out_target = known_codes(classes, held_out.y, held_out.source)[0]
    scaling = choose_scaling(settings.scaling, train, summary, settings, scheduler)
    held = held_out, held_out_target
    return Prepared(train, classes, target, summary, scaling, *held, numbers, n_given=n_given)


def warn_of_unlike(weights: Doubles | None, precision: str) -> None:
    """Warn of positive row weights that differ too much for single precision."""
    factor = 1.0 if weights is None else float(weights.max() / weights.min())
    if factor > MOST_UNLIKE and precision == "float32":
        logger.warning(
            "row weights differ by a factor of %.1g, too much for single precision; the "
            "probabilities may be poor: use precision=float64 or weights that differ less",
            factor,
        )


def columns_of(fitted: Any) -> ColumnNames:
    """Return the names of the encoded columns of a table or model, if they have any."""
    if (known := fitted.encoding) is None:
        return ColumnNames(*2 * (fitted.names or (),))
    ends = {"category": ("", RARE, *CODE_PARTS), "date": (YEAR, *chain(*DATE_PARTS))}
    others = [c.name + end for c in known.columns for end in (*ends.get(c.kind, ("",)), MISSING)]
    many = [c.name for c in known.columns if c.kind == "category"]
    beginnings = [name + end for name in many for end in ("=", MEAN)]
    return ColumnNames(known.names, known.scales, (*others,), (*beginnings,))


def site_rule(settings: TrainSettings, data: Prepared) -> SiteRule:
    """Return the likelihood for these rows, and the rule for its sites.

    Raises
    ------
    SettingsError
        If likelihood, sites, kernels or strategy do not go with the number of classes.
    """
    n_classes = len(data.classes)
    likelihood = settings.start_likelihood(n_classes)
    several, moments = likelihood.n_latent(n_classes) > 1, settings.sites == "moments"
    if moments and several and not settings.kernel_per_class:
        raise SettingsError(
            f"sites=moments of likelihood={settings.likelihood} differ from class to class, so "
            "each needs a kernel of its own; give kernel_per_class=True"
        )
    if settings.kernel_per_class:  # raises if there are too many classes for moments
        zero = np.zeros((1, likelihood.n_latent(n_classes)))
        likelihood.log_z(zero, zero + 1.0, np.zeros(1, np.int64))
    if settings.learn == "evidence" and several and settings.strategy != "constant":
        raise SettingsError(
            f"strategy={settings.strategy} is for likelihoods of one latent value, got "
            f"{settings.likelihood}; give strategy=constant"
        )
    if likelihood.ordered and n_classes > 2 and data.classes.dtype.kind == "U":
        message = "likelihood=%s takes the classes in alphabetical order, %s; if wrong, number them"
        logger.warning(message, likelihood.name, join_first(data.classes.tolist(), 5))
    if settings.likelihood_spec.given is None:
        kernel = settings.kernels(likelihood.n_latent(n_classes), data.scaled_variances)[0]
        typical_row = np.sqrt(data.scaled_variances)[np.newaxis]
        likelihood = likelihood.suited_to(float(kernel.diag(typical_row)[0]), data.target)
    return SiteRule(likelihood, settings.sites, settings.epsilon if moments else 0.0)


def count_original_rows(table: Table) -> int:
    """Return the number of rows before some were dropped, if known."""
    return len(table.X) if table.rows is None else int(table.rows.max()) + 1


def choose_scaling(
    rule: str,
    train: Table,
    summary: Summary,
    settings: TrainSettings | DenseSettings,
    scheduler: Any,
) -> Scaling:
    """Compute the scaling of the training rows by a rule."""

    def draw() -> Floats:
        rng = np.random.default_rng([settings.seed, summary.n])
        rows = np.sort(rng.permutation(summary.n)[:DRAWN_ROWS])
        return np.asarray(train.X[rows].compute(scheduler=scheduler))

    kept = None if train.encoding is None else train.encoding.indicates
    return scaling_for(rule, summary, draw, kept)


def choose_validation_rows(
    target: Any, settings: TrainSettings, families: Integers, keeps_scale: bool = False
) -> Booleans:
    """Draw the validation rows by a seeded permutation; return a mask (n,).

    Rows of a family are drawn together, since a copy of a training row, or another row of the same
    id, says too little about new rows. At most half of the rows of any class are drawn, so there
    may be fewer validation rows than requested.

    Parameters
    ----------
    target : array (n,)
        Class codes, or targets of a regression.
    settings : TrainSettings
    families : Integers (n,)
        See `Prepared.families`.
    keeps_scale : bool
        See `TrainSettings.n_validation`.
    """
    n, sizes = len(target), np.bincount(families)
    wanted = settings.n_validation(n, keeps_scale, _largest_class(target))
    rng = np.random.default_rng([settings.seed, n])
    chosen = np.zeros(len(sizes), dtype=bool)
    codes = np.zeros(n, np.int64) if is_regression_target(target) else target
    rows, ends = np.argsort(families, kind="stable"), np.cumsum(sizes)
    most = np.bincount(codes) // 2
    for one in rng.permutation(len(sizes)):
        if wanted == 0:
            break
        if sizes[one] > wanted:
            continue
        taken = np.bincount(codes[rows[ends[one] - sizes[one] : ends[one]]], minlength=len(most))
        if (taken <= most).all():
            chosen[one] = True
            wanted, most = wanted - sizes[one], most - taken
    if wanted and not chosen.any():  # all families are larger
        chosen[sizes.argmin()] = True
    return np.asarray(chosen[families])


def choose_candidates(
    data: Prepared, validation: Booleans, settings: TrainSettings, n_active: int, scheduler: Any
) -> Integers | None:
    """Draw the rows that may become active, in ascending order; return None if all may.

    Each class gets at least half of an equal share, or all of its rows. Of separate observations
    with the same inputs, only the first may be drawn: for the posterior `all`, the others would add
    nothing to the span of the latent means, and take the place of other inputs.

    Parameters
    ----------
    data : Prepared
    validation : Booleans (n,)
    settings : TrainSettings
    n_active : int
        Number of rows to include.
    scheduler : str or callable, optional
        Dask scheduler.
    """
    n, able = len(validation), np.flatnonzero(~validation)
    wanted = settings.n_candidates(n, n_active)
    if is_thinned := data.train.repeats and settings.draws_candidates:
        parts = data.train.X.to_delayed().ravel()
        hashes = np.concatenate(compute_each(hashes_of_rows, parts, scheduler=scheduler))
        able = able[first_places(hashes[able])]
    if wanted >= len(able):
        return able if is_thinned else None
    rows = np.random.default_rng([settings.seed, n, 2]).permutation(able)
    chosen = [rows[:wanted]]
    if not settings.is_regression:
        share = -(-wanted // (2 * len(data.classes)))
        chosen.append(rows[rank_in_group(data.target[rows]) < share])
    return np.unique(np.concatenate(chosen))


def choose_folds(target: Any, settings: TrainSettings, families: Integers) -> Integers:
    """Return the cross-validation fold of each row, (n,); empty without cross-validation.

    It is needed if there are too few rows, or too few of rare classes, for validation rows. Folds
    are stratified by class. Rows of a family are in the same fold.

    Parameters
    ----------
    target : Integers (n,)
        Class codes.
    settings : TrainSettings
    families : Integers (n,)
        See `Prepared.families`.
    """
    n = len(target)
    has_rows = settings.n_validation(n, n_largest=_largest_class(target))
    if not settings.keeps_validation_rows or has_rows:
        return np.empty(0, dtype=np.int64)
    first = np.unique(families, return_index=True)[1]
    permuted = np.random.default_rng([settings.seed, n]).permutation(len(first))
    folds = np.empty(len(first), dtype=np.int64)
    folds[permuted] = stratified_folds(target[first[permuted]], N_FOLDS)
    return np.asarray(folds[families])


def stratified_folds(target: Any, n_folds: int) -> Integers:
    """Return the fold of each row, (n,); the rows of every class are dealt to the folds in turn."""
    _, seen, codes = np.unique(target, return_index=True, return_inverse=True)
    folds = np.empty(len(target), dtype=np.int64)
    # classes in order of their first rows, as their codes must not matter
    folds[np.argsort(seen[codes], kind="stable")] = np.arange(len(target)) % n_folds
    return folds


def _largest_class(target: Any) -> int:
    """Return the number of rows of the largest class, 0 in a regression."""
    return 0 if is_regression_target(target) else int(np.bincount(target).max())
