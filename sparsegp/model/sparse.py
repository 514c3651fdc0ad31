"""A sparse model: the active rows, their sites and the posterior over their span.

It holds no other training row.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsegp.execution.threads import usable_cpus
from sparsegp.kernels import Kernel, parse
from sparsegp.likelihoods import Likelihood
from sparsegp.model.base import Model
from sparsegp.posterior.base import ActiveRows, Calibration, Span
from sparsegp.posterior.predict import Posterior
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True, kw_only=True)
class SparseModel(Model, family="sparse"):
    """A model of the informative vector machine.

    Parameters
    ----------
    active : ActiveRows
        Kernels, likelihood and scaled active rows.
    span : Span
        The posterior over their span.
    **common
        See `Model`.
    """

    arrays: ClassVar[Mapping[str, str]] = {
        "x": "f a p",
        "target": "biuf a",
        "site": "f a R",
        "precision?": "f a C",
        "gain?": "f K *",
    }

    active: ActiveRows
    span: Span

    def __post_init__(self) -> None:
        with threadpool_limits(1):  # the same bits on any number of processors
            posterior = Posterior.from_span(self.active, self.span)
        object.__setattr__(self, "_posterior", posterior)

    @property
    def posterior(self) -> Posterior:
        """The Gaussian posterior spanned by the active rows."""
        posterior: Posterior = object.__getattribute__(self, "_posterior")
        return posterior

    @property
    def n_features(self) -> int:
        """Number of input columns p."""
        return int(self.active.x.shape[1])

    @property
    def n_latent(self) -> int:
        """Latent values of a row: one, or one a class."""
        return int(self.active.site.shape[1])

    @property
    def kernels(self) -> Sequence[Kernel]:
        """One for all latent values, or one each."""
        return self.active.kernels

    @property
    def likelihood(self) -> Likelihood:
        """That of a label given its latent values."""
        likelihood: Likelihood = self.active.likelihood
        return likelihood

    @property
    def report(self) -> Mapping[str, Any]:
        """What happened while the posterior was made."""
        return {**self.span.report, "jitter": self.posterior.jitter}

    @property
    def calibration(self) -> Calibration:
        """How latent values become probabilities."""
        return self.span.calibration

    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        def transform(rows: Floats) -> Floats:
            scaled: Floats = self.scaling.apply(rows)
            return scaled

        with ThreadPoolExecutor(usable_cpus()) as executor:
            return self.posterior.latent(X, transform, executor)

    def _log_probabilities(self, X: Any) -> Doubles:
        mean, variance = self._latent(X)
        calibration = self.span.calibration
        temperature, weight = calibration.temperature, calibration.variance_weight
        return self.likelihood.tempered(temperature).log_probabilities(
            mean / temperature, weight * variance
        )

    def _contents(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta = {
            "kernels": [str(kernel) for kernel in self.kernels],
            "likelihood": self.likelihood.to_json(),
            "calibration": asdict(self.span.calibration),
            "report": self.span.report,
        }
        arrays: dict[str, NDArray[Any]] = {
            "x": self.active.x,
            "target": self.active.target,
            "site": self.active.site,
            "coefficients": np.concatenate(self.span.coefficients),
        }
        if self.active.precision is not None:
            arrays["precision"] = self.active.precision
        if self.span.gain is not None:
            arrays["gain"] = np.stack([_packed(factor) for factor in self.span.gain])
        return meta, arrays

    @classmethod
    def _restored(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], common: dict[str, Any]
    ) -> "SparseModel":
        active = ActiveRows(
            [parse(text) for text in meta["kernels"]],
            Likelihood.from_json({"name": "multinomial_probit", **meta["likelihood"]}),
            arrays["x"],
            arrays["target"],
            arrays["site"],
            arrays.get("precision"),
        )
        gain = arrays.get("gain")
        coefficients = arrays["coefficients"]
        ends = np.cumsum([len(members) for members in active.members()])[:-1]
        flat = coefficients.reshape(-1, coefficients.shape[-1])  # version 0.1 stacked them
        span = Span(
            np.split(flat, ends),
            None if gain is None else [_unpacked(packed, len(active.x)) for packed in gain],
            Calibration(**meta["calibration"]),
            meta["report"],
        )
        if flat.shape[1] * len(active.kernels) != active.site.shape[1]:
            raise ValueError(f"coefficients {coefficients.shape} for sites {active.site.shape}")
        return cls(active=active, span=span, **common)


def _packed(lower: Doubles) -> Floats:
    """Return the lower triangle row after row, in float32."""
    return np.asarray(lower[np.tril_indices(len(lower))], dtype=np.float32)


def _unpacked(packed: Floats, size: int) -> Doubles:
    lower = np.zeros((size, size))
    lower[np.tril_indices(size)] = packed
    return lower
