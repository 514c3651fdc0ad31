"""Settings of a dense method: all rows at once, in O(n^3)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sparsegp.dense import METHODS, Method, likelihood_for, parse_method
from sparsegp.dense.sampling import LEAST_DRAWS
from sparsegp.errors import SettingsError
from sparsegp.kernels import InputScale, Kernel, parse, parse_many
from sparsegp.likelihoods import Likelihood
from sparsegp.likelihoods.parse import parse as parse_likelihood
from sparsegp.types import Doubles

LEARN = ("none", "evidence", "hmc")


@dataclass(frozen=True)
class DenseSettings:
    """Settings of a run that takes all rows.

    Parameters
    ----------
    method : str
        Name in `METHODS`, with options in parentheses: "ep(damping=0.5)".
    kernel : str
        Text of the kernel; a length scale left out is chosen from the data (`Kernel.fill`).
    kernel_per_class : bool
        One kernel for every class. The text may then name them all, separated by semicolons.
    likelihood : str
        Name in `LIKELIHOODS`; the first of the method's that suits the number of classes if empty.
        "gaussian(0.3)" has that noise variance, of labels of variance one; "evidence" starts there.
    learn : str
        "none"; "evidence": kernels of the highest marginal likelihood, times the hyperprior; "hmc":
        samples of them by hybrid Monte Carlo, over which predictions are averaged.
    steps : int
        Line searches of "evidence", at most; draws of each chain of "hmc".
    hyperprior : str
        Prior densities of what is learnt (learning/hyperpriors.py).
    averaged : bool
        Whether probabilities are averaged over the latent posterior, or taken at its mean.
    scaling : str
        Name in `SCALINGS`.
    seed : int
        Key of whatever is random.
    """

    method: str = "laplace"
    kernel: str = "10*rbf"
    kernel_per_class: bool = False
    likelihood: str = ""
    learn: str = "none"
    steps: int = 100
    hyperprior: str = ""
    averaged: bool = True
    scaling: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        from sparsegp.data import SCALINGS  # noqa: PLC0415 - names only

        SCALINGS[self.scaling]  # raises for an unknown name
        self._check_likelihood()
        method = self.build_method()
        if self.learn not in LEARN:
            raise SettingsError(f"learn must be one of {', '.join(LEARN)}, got {self.learn!r}")
        if self.learn != "none" and not method.has_evidence:
            having = [name for name in METHODS if METHODS[name]().has_evidence]
            raise SettingsError(
                f"learn={self.learn} needs the gradient of a marginal likelihood, which "
                f"method={method.name} has not; use one of {', '.join(having)}"
            )
        least_steps = LEAST_DRAWS if self.learn == "hmc" else 1
        for name, least in {"seed": 0, "steps": least_steps}.items():
            if getattr(self, name) < least:
                raise SettingsError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not self.kernel_per_class:
            parse(self.kernel)

    def _check_likelihood(self) -> None:
        if not self.likelihood:
            return
        wanted = parse_likelihood(self.likelihood)
        if wanted.given is not None and not wanted.family.numeric:
            raise SettingsError(
                f"in dense methods numbers of a likelihood are for gaussian, got "
                f"{self.likelihood}; leave them out"
            )

    def build_method(self) -> Method:
        """Return the method with its options."""
        return parse_method(self.method)

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        text = self.likelihood or self.build_method().likelihoods[0]
        return parse_likelihood(text).family.numeric

    @property
    def learns_likelihood(self) -> bool:
        """Whether the noise variance of a regression is learnt; "hmc" samples kernels alone."""
        return self.is_regression and self.learn == "evidence"

    def choose_likelihood(self, n_classes: int) -> Likelihood:
        """Return the likelihood for so many classes.

        Raises
        ------
        SettingsError
            If the method has none.
        """
        return likelihood_for(type(self.build_method()), n_classes, self.likelihood)

    def sizes(self, n_classes: int) -> tuple[int, int]:
        """Return how many kernels there are, and (n, n) matrices that are held at a time.

        Raises
        ------
        SettingsError
            If the method is not for so many classes.
        """
        likelihood = self.choose_likelihood(n_classes)
        n_latent = likelihood.n_latent(n_classes)
        n_kernels = n_latent if self.kernel_per_class else 1
        return n_kernels, self.build_method().matrices(n_kernels, n_latent, likelihood.name)

    def rows_to_include(self, n: int) -> int:
        """Return the number of rows that the model holds: all."""
        return n

    def kernels(self, n_latent: int, variances: Doubles) -> list[Kernel]:
        """Return the kernels with all length scales filled in; see `TrainSettings.kernels`."""
        texts = parse_many(self.kernel, n_latent) if self.kernel_per_class else None
        scale, probe = InputScale(variances), np.zeros((1, len(variances)))
        filled = [kernel.fill(scale) for kernel in texts or [parse(self.kernel)]]
        for kernel in filled:
            kernel(probe, probe)  # raises where the kernel does not fit the columns
        return filled

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def given(cls, **named: Any) -> "DenseSettings":
        """Return settings of which some are named, and perhaps a `task`.

        Raises
        ------
        SettingsError
            If a name is unknown, or the settings do not go together.
        """
        task = named.pop("task", None)
        settings = cls.from_json(named)
        if task is not None and (task == "regression") != settings.is_regression:
            what = "likelihood" if settings.likelihood else "method"
            raise SettingsError(
                f"{what}={getattr(settings, what)} is not for task={task}; use another"
            )
        return settings

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "DenseSettings":
        """Restore what `to_json` gave; unknown names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(stored) - known)
        if unknown:
            raise SettingsError(
                f"method={stored.get('method')} takes all rows and has no settings "
                f"{', '.join(unknown)}; it knows {', '.join(sorted(known))}"
            )
        return cls(**stored)
