"""What makes a row worth including: one class a criterion, larger scores are better."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers


@dataclass(frozen=True)
class Marginals:
    """What a criterion may look at, row by row.

    Attributes
    ----------
    rows : Integers (n,)
        Row numbers in the whole data set.
    target : Integers (n,)
        Class codes.
    mean : Doubles (n, K)
        Latent means.
    variance : Doubles (n, 1) or (n, K)
        Latent variances; one column if the classes share them.
    """

    rows: Integers
    target: Integers
    mean: Doubles
    variance: Doubles

    def take(self, index: Integers) -> "Marginals":
        """Return the marginals of some rows."""
        return Marginals(
            self.rows[index], self.target[index], self.mean[index], self.variance[index]
        )


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
    """True if the score is -log Z, for which selection/lazy.py has bounds."""
    refitted: ClassVar[bool] = False
    """True if scores are taken at the means of the all-data posterior, which is fitted now and then
    (posterior/refits.py), and stay as they are in between."""

    @abstractmethod
    def scores(self, likelihood: MultinomialProbit, marginals: Marginals) -> Doubles:
        """Return the scores, (n,)."""


CRITERIA: Registry[type[Criterion]] = Registry("criterion")


@CRITERIA.register("predictive")
class Predictive(Criterion):
    """The least predictive probability of the row's own class first (GR eq. 5.5)."""

    concave: ClassVar[bool] = True

    def scores(self, likelihood: MultinomialProbit, marginals: Marginals) -> Doubles:
        """Return -log Z."""
        return -likelihood.log_z(marginals.mean, marginals.variance, marginals.target)


@CRITERIA.register("residual")
class Residual(Criterion):
    """What the posterior of all rows explains least first: -log Z at its means alone."""

    refitted: ClassVar[bool] = True

    def scores(self, likelihood: MultinomialProbit, marginals: Marginals) -> Doubles:
        """Return -log Z without the latent variance."""
        return -likelihood.mean_gradient(marginals.mean, marginals.target)[0]


@CRITERIA.register("random")
class Random(Criterion):
    """Rows in random order, for comparison: a keyed hash of the row number.

    Scores are uniform on [0, 2^39), whole multiples of the unit in which selection/lazy.py compares
    scores: on [0, 1) many rows would tie there, and the smaller row numbers win.
    """

    static: ClassVar[bool] = True

    def scores(self, likelihood: MultinomialProbit, marginals: Marginals) -> Doubles:
        """Return the same number for the same row and seed, whatever block it is in."""
        del likelihood
        key = np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]
        return _uniform(marginals.rows.astype(np.uint64) ^ key)


def _uniform(key: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> Doubles:
    """Return 53 bits of the SplitMix64 finaliser of each key, in units of 2^-14."""
    z = key * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-14)
