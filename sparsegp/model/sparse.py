"""A sparse model: the active rows, their sites and the posterior over their weights.

It stores no other training rows.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sparsegp.blas import limit_this_thread, single_threaded_blas
from sparsegp.errors import DataError, SettingsError
from sparsegp.math.quantiles import Quantiles
from sparsegp.model.base import Model
from sparsegp.model.explain import Explanation, explain
from sparsegp.model.rows import map_rows
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights
from sparsegp.posterior.limits import Span, prior_shares, spans_of
from sparsegp.posterior.predict import Posterior
from sparsegp.runtime.threads import usable_cpus
from sparsegp.types import Doubles, Floats, Integers

NOVELTY_CHUNK = 4096
"""Number of rows whose novelty is computed at a time."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SparseModel(Model):
    """A model of the informative vector machine, with further fields besides those of `Model`."""

    family: ClassVar[str] = "sparse"

    active: ActiveRows  # kernels, likelihood and scaled active rows
    weights: PosteriorWeights  # the posterior over their weights
    shares: Quantiles | None = None
    """Quantiles of the remaining fraction of the prior variance at validation rows, or at training
    rows given the other active rows (posterior/limits.py)."""

    def __post_init__(self) -> None:
        active, weights, target = self.active, self.weights, self.active.target
        sizes = [len(members) for members in active.members()]
        widths = [columns.stop - columns.start for columns in active.columns()]
        triangles = [each for each in (weights.gain, weights.reduction) if each is not None]
        are_codes = target.dtype.kind in "iu" and np.isin(target, range(len(self.classes))).all()
        if (
            [c.shape for c in weights.coefficients] != [*zip(sizes, widths, strict=True)]
            or len(triangles) == 1
            or any([each.shape for each in some] != [(n, n) for n in sizes] for some in triangles)
            or not all((np.diag(factor) > 0).all() for factor in weights.gain or ())
            or (active.x.shape[1], active.site.shape[1]) != (self.n_features, self.n_latent)
            or not (self.is_regression or are_codes)
        ):
            raise DataError("posterior weights, active rows, columns and classes must fit")
        super().__post_init__()

    @cached_property
    def posterior(self) -> Posterior:
        """Gaussian posterior spanned by the active rows."""
        with single_threaded_blas():  # the same bits on any number of processors
            return Posterior(self.active, self.weights)

    @cached_property
    def spans(self) -> list[Span]:
        """Active rows of each class (posterior/limits.py)."""
        with single_threaded_blas():
            return spans_of(self.active, len(self.classes))

    def most_probable_codes(self, x: Doubles) -> Integers:
        """Return the code of the class with the largest latent mean at scaled rows x (n, p), (n,).

        With a single latent value it is the most probable class; in a regression it is 0.
        """
        mean, variance = self.posterior.latent(x)
        if self.n_latent == 1 and not self.is_regression:
            mean = self.calibration.log_probabilities(self.likelihood, mean, variance)
        return np.asarray(mean.argmax(axis=1))

    @property
    def _samples(self) -> list[ActiveRows]:
        return [self.active]

    @property
    def _stored_rows(self) -> Floats:
        return self.active.x

    @property
    def report(self) -> Mapping[str, Any]:
        """Diagnostics of the computation of the posterior."""
        return self.weights.report

    @property
    def calibration(self) -> Calibration:
        """Calibration of latent values into probabilities."""
        return self.weights.calibration

    @property
    def scores(self) -> Quantiles | None:
        """Quantiles of the conformal scores of validation or left-out rows, if there were any."""
        return self.weights.scores

    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        with ThreadPoolExecutor(usable_cpus(), initializer=limit_this_thread) as executor:
            return self.posterior.latent(X, self._scaled, executor)

    def _log_probabilities(self, X: Any) -> Doubles:
        return self.calibration.log_probabilities(self.likelihood, *self._latent(X))

    def _inputs(self, X: Any) -> Doubles:
        """Return the inputs before scaling, as float64."""
        return np.asarray(X, np.float64)

    def _novelty(self, X: Any) -> Doubles:
        assert self.shares is not None  # checked by `novelty`
        starts = range(0, len(X), NOVELTY_CHUNK)
        tiles = (self._scaled(X[start : start + NOVELTY_CHUNK]) for start in starts)
        shares = [prior_shares(self.spans, x, self.most_probable_codes(x)) for x in tiles]
        return self.shares.below(np.concatenate(shares))[:, np.newaxis]

    def novelty(self, X: Any) -> Any:
        """Return the novelty of each row (n,), from 0 to 1; see `Model.novelty`."""
        if self.shares is None:
            raise SettingsError("the model is of an older version, without novelty; train it again")
        return map_rows(self, "_novelty", X, 1)[:, 0]

    def explain(self, X: Any, most: int = 5) -> list[Explanation]:
        """Return an explanation of the prediction of each row; see `Model.explain`."""
        return explain(self, X, most)
