"""What makes a row worth including: one class a criterion, larger scores are better."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.likelihoods.sites import SiteRule, Sites
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers


@dataclass(frozen=True)
class Marginals:
    """What a criterion may look at, row by row.

    Attributes
    ----------
    rows : Integers (n,)
        Row numbers in the whole data set.
    target : array (n,)
        Class codes, or numbers in a regression.
    mean : Doubles (n, R)
        Latent means.
    variance : Doubles (n, 1) or (n, R)
        Latent variances; one column if the latent values share them.
    weight : Doubles (n,), optional
        Of the rows; without, all weigh one.
    """

    rows: Integers
    target: Any
    mean: Doubles
    variance: Doubles
    weight: Doubles | None = None

    def take(self, index: Integers) -> "Marginals":
        """Return the marginals of some rows."""
        return Marginals(
            self.rows[index],
            self.target[index],
            self.mean[index],
            self.variance[index],
            None if self.weight is None else self.weight[index],
        )

    def weighted(self, values: Doubles) -> Doubles:
        """Return values of the rows, (n,) times their weights."""
        return values if self.weight is None else self.weight * values


@dataclass(frozen=True)
class Criterion(ABC):
    """A score for every row.

    Parameters
    ----------
    seed : int
        Key of whatever is random in it.
    """

    seed: int = 0
    static: ClassVar[bool] = False
    """True if scores do not depend on the marginals."""
    concave: ClassVar[bool] = False
    """True if the score is -log Z, for which ivm/scores.py has bounds."""

    @abstractmethod
    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return the scores of all rows, (n,); -inf for those that may not be included."""


def _sites(rule: SiteRule, marginals: Marginals) -> Sites:
    return rule.sites(marginals.mean, marginals.variance, marginals.target, marginals.weight)


def _of_included(scores: Any, rule: SiteRule, marginals: Marginals) -> Doubles:
    """Return the scores, -inf for rows whose sites say too little."""
    if rule.threshold > 0.0:
        scores = np.where(rule.is_silent(_sites(rule, marginals)), -np.inf, scores)
    return np.asarray(scores)


CRITERIA: Registry[type[Criterion]] = Registry("criterion")


@CRITERIA.register("predictive")
class Predictive(Criterion):
    """The least predictive probability of the row's own class first (GR eq. 5.5)."""

    concave: ClassVar[bool] = True

    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return -log Z, times the weight of the row."""
        log_z = rule.likelihood.log_z(marginals.mean, marginals.variance, marginals.target)
        return _of_included(-marginals.weighted(log_z), rule, marginals)


class Change(Criterion):
    """What the sites of a row would change, added up over its latent values.

    Scores are logarithms: the changes by late rows are small, and compared like those by others.
    """

    @abstractmethod
    def changes(self, marginals: Marginals, sites: Sites) -> Doubles:
        """Return the change of every latent value in nats, (n, R)."""

    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return the logarithm of the sum of changes, (n,); -inf for those not to be included."""
        sites = _sites(rule, marginals)
        with np.errstate(divide="ignore"):  # rows that say nothing
            scores = np.log(self.changes(marginals, sites).sum(axis=1))
        return np.asarray(np.where(rule.is_silent(sites), -np.inf, scores))

    def scores_by_value(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return scores of single latent values, (n, R); -inf for those not to be included."""
        sites = _sites(rule, marginals)
        with np.errstate(divide="ignore"):
            scores = np.log(self.changes(marginals, sites))
        return np.asarray(np.where(sites.precision > rule.threshold, scores, -np.inf))


def _share(marginals: Marginals, sites: Sites) -> Doubles:
    """Return x = a / length^2, the share of the variances that an inclusion would take, (n, C)."""
    with np.errstate(over="ignore"):  # sites of next to no precision
        return np.asarray(marginals.variance / np.square(sites.length))


@CRITERIA.register("information")
class Information(Change):
    """The greatest information gain first (SLH eq. 5): D[Q' || Q] of the row's latent values.

    With x = a nu = a / length^2 it is (-log(1 - x) - x + x step^2) / 2 for each of them.
    """

    def changes(self, marginals: Marginals, sites: Sites) -> Doubles:
        """Return the gains in nats, (n, R)."""
        x = _share(marginals, sites)
        return np.asarray(0.5 * (_excess(x) + x * np.square(sites.step)))


@CRITERIA.register("entropy")
class Entropy(Change):
    """The greatest fall of the differential entropy of the row's latent values first.

    The criterion of Lawrence, Seeger & Herbrich (2003), SLH section 3.2: -log(1 - x) / 2 for each
    of them, x = a / length^2.
    """

    def changes(self, marginals: Marginals, sites: Sites) -> Doubles:
        """Return the falls in nats, (n, R)."""
        fall = -0.5 * np.log1p(-_share(marginals, sites))
        return np.asarray(np.broadcast_to(fall, sites.step.shape))


@CRITERIA.register("random")
class Random(Criterion):
    """Rows in random order, for comparison: a keyed hash of the row number, whatever the weights.

    Scores are uniform on [0, 2^39), whole multiples of the unit in which ivm/scores.py compares
    scores: on [0, 1) many rows would tie there, and the smaller row numbers win.
    """

    static: ClassVar[bool] = True

    def scores(self, rule: SiteRule, marginals: Marginals) -> Doubles:
        """Return the same number for the same row and seed, whatever block it is in."""
        key = np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]
        words = mixed(marginals.rows.astype(np.uint64) ^ key) >> np.uint64(11)
        return _of_included(words.astype(np.float64) * 2.0**-14, rule, marginals)


def mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the SplitMix64 finaliser of each key; different keys give different words."""
    z = key * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _excess(x: Doubles) -> Doubles:
    """Return -log(1 - x) - x without the loss of digits at small x."""
    series = x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
    return np.asarray(np.where(np.abs(x) < 1e-3, series, -np.log1p(-x) - x))
