"""Selection criteria, one class each; rows with larger scores are included first."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.likelihoods.sites import SiteRule, Sites
from sparsegp.math.hashing import mixed
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers


@dataclass(frozen=True)
class Marginals:
    """The state of rows that a criterion may depend on."""

    rows: Integers  # row numbers in the whole data set (n,)
    target: Any  # class codes, or targets in a regression, (n,)
    mean: Doubles  # latent means (n, R)
    variance: Doubles  # latent variances (n, R), or (n, 1) if the latent values share them
    weight: Doubles | None = None  # row weights (n,); 1 if omitted

    @classmethod
    def joined(cls, parts: Sequence["Marginals"]) -> "Marginals":
        """Return the marginals of the rows of several parts."""
        names = parts[0]._arrays()
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})

    def take(self, index: Integers) -> "Marginals":
        """Return the marginals of some rows."""
        return Marginals(**{name: array[index] for name, array in self._arrays().items()})

    def _arrays(self) -> dict[str, Any]:
        return {name: array for name, array in vars(self).items() if array is not None}

    def weighted(self, values: Doubles) -> Doubles:
        """Return values of the rows, (n,), multiplied by the row weights."""
        return values if self.weight is None else self.weight * values

    def sites(self, rule: SiteRule) -> Sites:
        """Return the sites of the rows."""
        return rule.sites(self.mean, self.variance, self.target, self.weight)


@dataclass(frozen=True)
class Criterion(ABC):
    """A selection criterion: a score for every row."""

    seed: int = 0  # of the random parts, if any
    static: ClassVar[bool] = False
    """Whether scores are independent of the marginals."""
    concave: ClassVar[bool] = False
    """Whether the score is -log Z, for which ivm/scores.py has bounds."""

    @abstractmethod
    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return the scores of all rows, (n,); -inf for those that may not be included."""


def _mask_silent(scores: Any, rule: SiteRule, marginals: Marginals) -> Doubles:
    """Return the scores, but -inf for rows whose sites have too little precision."""
    if rule.threshold > 0.0:
        scores = np.where(rule.is_silent(marginals.sites(rule)), -np.inf, scores)
    return np.asarray(scores)


CRITERIA: Registry[type[Criterion]] = Registry("criterion")


@CRITERIA.register("predictive")
class Predictive(Criterion):
    """Negative log predictive probability of the row's own class (GR eq. 5.5)."""

    concave: ClassVar[bool] = True

    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return -log Z, times the weight of the row."""
        variance = np.maximum(marginals.variance, 0.0)  # rounding can make it negative
        log_z = rule.likelihood.log_z(marginals.mean, variance, marginals.target)
        return _mask_silent(-marginals.weighted(log_z), rule, marginals)


class Change(Criterion):
    """A change that including a row would cause, summed over its latent values.

    Scores are logarithms, because changes become small while scores are compared in a fixed unit.
    """

    @abstractmethod
    def changes(self, marginals: Marginals, sites: Sites) -> Doubles:
        """Return the change for each latent value in nats, (n, R)."""

    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return the log of the summed changes, (n,); -inf for rows that may not be included."""
        sites = marginals.sites(rule)
        with np.errstate(divide="ignore"):  # rows that change nothing
            scores = np.log(self.changes(marginals, sites).sum(axis=1))
        return np.asarray(np.where(rule.is_silent(sites), -np.inf, scores))

    def scores_by_value(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return the scores of each latent value, (n, R); -inf for those not to be included."""
        sites = marginals.sites(rule)
        with np.errstate(divide="ignore"):
            scores = np.log(self.changes(marginals, sites))
        return np.asarray(np.where(sites.precision > rule.threshold, scores, -np.inf))


def _share(marginals: Marginals, sites: Sites) -> Doubles:
    """Return x = a / length^2, the fraction of the variance that inclusion would remove, (n, C)."""
    with np.errstate(over="ignore"):  # sites of almost no precision
        return np.asarray(marginals.variance / np.square(sites.length))


@CRITERIA.register("information")
class Information(Change):
    """Information gain D[Q' || Q] of the row's latent values (SLH eq. 5).

    For each value it is (-log(1 - x) - x + x step^2) / 2 with x = a nu = a / length^2.
    """

    def changes(self, marginals: Marginals, sites: Sites) -> Doubles:
        """Return the gains in nats, (n, R)."""
        x = _share(marginals, sites)
        return np.asarray(0.5 * (_excess(x) + x * np.square(sites.step)))


@CRITERIA.register("entropy")
class Entropy(Change):
    """Decrease of the differential entropy of the row's latent values.

    The criterion of Lawrence, Seeger & Herbrich (2003), SLH section 3.2: -log(1 - x) / 2 for each
    value, with x = a / length^2.
    """

    def changes(self, marginals: Marginals, sites: Sites) -> Doubles:
        """Return the decreases in nats, (n, R)."""
        fall = -0.5 * np.log1p(-_share(marginals, sites))
        return np.asarray(np.broadcast_to(fall, sites.step.shape))


@CRITERIA.register("random")
class Random(Criterion):
    """Random order, for comparison: a keyed hash of the row number, regardless of weights.

    Scores are uniform on [0, 2^39), in multiples of the unit in which ivm/scores.py compares them.
    On [0, 1) many rows would tie, which would favour small row numbers.
    """

    static: ClassVar[bool] = True

    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return scores that depend only on the row number and the seed, not on the block."""
        key = np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]
        words = mixed(marginals.rows.astype(np.uint64) ^ key) >> np.uint64(11)
        return _mask_silent(words.astype(np.float64) * 2.0**-14, rule, marginals)


def _excess(x: Doubles) -> Doubles:
    """Return -log(1 - x) - x without cancellation at small x."""
    series = x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
    return np.asarray(np.where(np.abs(x) < 1e-3, series, -np.log1p(-x) - x))
