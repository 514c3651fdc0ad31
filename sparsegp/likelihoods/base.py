"""Base class and registry of likelihoods of labels given latent values, with default methods.

For marginals u ~ N(mean, diag(variance)), inference needs the expectation Z = E[p(y|u)] and the
first two derivatives of log Z with respect to the means (Seeger, Lawrence & Herbrich 2006,
appendix B.1; SLH below). By default they are computed from `log_density` by quadrature (appendix
B.2); most subclasses override this with faster or more accurate methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.fields import Checked
from sparsegp.math.gaussian_quadrature import line_moments, product_moments
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.registry import Registry
from sparsegp.texts import Member, build
from sparsegp.types import Doubles, Floats, Integers

DIFFERENCE = 1e-5
"""Step of the finite differences in the default `parameter_gradient`."""


@dataclass(frozen=True)
class Moments:
    """Log Z, Z = E[p(y|u)], of n rows with R latent values, and its derivatives.

    The moment-matching site has the precision nu / (1 - a nu), where a is the latent variance and
    nu the curvature.
    """

    log_z: Doubles  # (n,)
    slope: Doubles  # d log Z / d mean_r (alpha of SLH), (n, R)
    curvature: Doubles  # -d2 log Z / d mean_r^2 (nu of SLH), (n, R)


LIKELIHOODS: Registry[type["Likelihood"]] = Registry("likelihood")


@dataclass(frozen=True)
class Likelihood(Checked, Member, ABC):
    """p(y|u) for a label y and R latent values u.

    A subclass is a frozen dataclass; ``class Probit(Likelihood, name="probit")`` registers it in
    `LIKELIHOODS`. Its fields are floats, integers or tuples of floats, optionally with a range
    (`fields.setting`). Results for a row are bit-identical whichever rows it is evaluated with.
    Variances are positive; `log_z` also accepts zero.
    """

    family: ClassVar[Registry[Any]] = LIKELIHOODS
    log_concave: ClassVar[bool] = True
    """Whether log p(y|u) is concave in u, so that no site has a negative precision."""
    numeric: ClassVar[bool] = False
    """Whether labels are numbers; otherwise they are class codes 0..K-1."""
    ordered: ClassVar[bool] = False
    """Whether the order of the classes matters."""
    curvature_bound: ClassVar[float] = 0.0
    """Upper bound on the eigenvalues of -d2 log p(y|u) / du du'; 0 if there is none. Variational
    sites and the posterior of all rows need one."""
    metric_curvature: ClassVar[float] = 1.0
    """Curvature to use in the metric of an ascent; it need not be a bound."""
    noise_precision: ClassVar[float] = 1.0
    """Precision of the noise in the likelihood. If it `has_score_bounds`, log Z for means m and a
    shared variance s is log Z for the means m / sqrt(1 + noise_precision s) and zero variance."""
    curvature_form: ClassVar[str] = ""
    """Form in dense/precisions.py of what `curvature` returns; empty if there is no `curvature`."""
    has_biases: ClassVar[bool] = False
    """Whether the parameters are biases, which are added to the latent values."""

    @classmethod
    def start(cls, n_classes: int, n_nodes: int = 12) -> Self:
        """Return the likelihood with its initial parameters, by default its fields' defaults.

        Parameters
        ----------
        n_classes : int
            Ignored if labels are numbers.
        n_nodes : int
            Nodes of one-dimensional quadrature, for likelihoods that use a fixed number.

        Raises
        ------
        SettingsError
            If the likelihood does not support this number of classes.
        """
        found = cls()
        is_binary = found.n_latent(3) == 1 and not cls.ordered
        if not cls.numeric and (n_classes < 2 or (is_binary and n_classes > 2)):
            needs = "exactly 2 classes" if is_binary else "at least 2 classes"
            more = "; for more use softmax" if n_classes > 2 else ""
            raise SettingsError(f"likelihood={cls.name} needs {needs}, got {n_classes}{more}")
        return found

    def suited_to(self, variance: float, target: Any) -> Self:
        """Return the likelihood with initial parameters that suit a prior variance and labels (n,).

        Called if no parameters were given.
        """
        return self

    @abstractmethod
    def log_density(self, latent: Doubles, target: Any) -> Doubles:
        """Return log p(y|u), (...), for latent values (..., R) and labels that broadcast to (...).

        The densities sum, or integrate, to one over the labels.
        """

    @property
    def has_score_bounds(self) -> bool:
        """Whether scores have upper bounds, which lazy selection needs."""
        return False

    def gradient(self, latent: Doubles, target: Any) -> tuple[Doubles, Doubles]:
        """Return log p(y|u) (n,), and its gradient with respect to the latent values (n, R)."""
        raise NotImplementedError

    def mean_gradient(self, mean: Floats, target: Any) -> tuple[Doubles, Floats]:
        """Return log p(y|u) (n,) and its gradient (n, R), optimised for many rows."""
        return self.gradient(mean.astype(np.float64), target)

    def n_latent(self, n_classes: int) -> int:
        """Return the number R of latent values per row."""
        return 1

    def moments(self, mean: Doubles, variance: Doubles, target: Any) -> Moments:
        """Return log Z and its derivatives.

        The default uses only `log_density`. For R = 1 it is accurate to double precision if the
        density is smooth and log-concave (1e-15 / variance for the curvature). For R > 1 it uses a
        product rule about the means, with up to 4096 points, or 3^R if that is more.

        Parameters
        ----------
        mean, variance : Doubles (n, R)
        target : array (n,)
            Class codes or numbers.
        """
        if mean.shape[1] == 1:
            log_z, *both = line_moments(
                lambda u, rows: self.log_density(u[..., np.newaxis], target[rows]),
                mean[:, 0],
                variance[:, 0],
            )
            shift, spread = (each[:, np.newaxis] for each in both)
        else:
            log_z, shift, spread = product_moments(
                lambda u, rows: self.log_density(u, target[rows]), mean, variance
            )
        with np.errstate(divide="ignore", invalid="ignore"):  # no derivatives at zero variance
            slope, curvature = shift / np.sqrt(variance), (1.0 - spread) / variance
        if self.log_concave:  # so is Z: negative values are rounding or quadrature errors
            curvature = np.maximum(curvature, 0.0)
        return Moments(log_z, slope, curvature)

    def log_z(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return log Z, (n,); parameters as for `moments`."""
        return self.moments(mean, variance, target).log_z

    def log_probabilities(self, mean: Doubles, variance: Doubles) -> Doubles:
        """Return the log probability of every class, (n, K), normalised to sum to one.

        Parameters
        ----------
        mean, variance : Doubles (n, R)

        Raises
        ------
        SettingsError
            If labels are numbers.
        """
        if self.numeric:
            raise SettingsError(
                f"likelihood={self.name} is for numbers and has no class probabilities; "
                "use predictive"
            )
        codes = range(self._n_classes(mean.shape[1]))
        each = [self.log_z(mean, variance, np.full(len(mean), code)) for code in codes]
        log_p = np.array(each)
        return np.asarray((log_p - log_sum_exp(log_p)).T)

    def _n_classes(self, n_latent: int) -> int:
        return n_latent if n_latent > 1 else 2

    def decide(self, mean: Doubles, variance: Doubles) -> Integers:
        """Return the code of the predicted class, (n,)."""
        return np.asarray(self.log_probabilities(mean, variance).argmax(axis=1))

    def loss(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return the loss of the prediction, (n,): 1 for a wrong class."""
        return np.asarray(self.decide(mean, variance) != target, dtype=np.float64)

    def tempered(self, temperature: float) -> Self:
        """Return the likelihood for latent values that have been divided by a temperature.

        Biases and thresholds are divided too: p(y | (u + b) / T) is the tempered likelihood of
        u / T. The default handles biases only.
        """
        return self.with_parameters(self.parameters() / temperature) if self.has_biases else self

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the q learnable parameters."""
        return ()

    def parameters(self) -> Doubles:
        """Return the parameters as unconstrained numbers, (q,); positive ones as logarithms."""
        return np.empty(0)

    def with_parameters(self, values: Doubles) -> Self:
        """Return the likelihood with other parameters (q,).

        Raises
        ------
        SettingsError
            If their number or their values are not valid.
        """
        if np.shape(values) != (len(self.parameter_names),):
            raise SettingsError(
                f"likelihood={self.name} has {len(self.parameter_names)} parameters "
                f"({', '.join(self.parameter_names)}), got an array of shape {np.shape(values)}"
            )
        return replace(self, **self._fields_of(values))

    def _fields_of(self, values: Doubles) -> dict[str, Any]:
        """Return the fields that belong to unconstrained parameters (q,)."""
        return {}

    def parameter_gradient(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return d log Z / d parameters, (n, q) (SLH eq. 12); arguments as for `moments`.

        Derivatives for biases are the slopes; for others the default uses central differences.
        """
        given = self.parameters()
        if self.has_biases:
            return self.moments(mean, variance, target).slope[:, : len(given)]
        columns = np.empty((len(given), len(mean)))
        for column, unit in zip(columns, np.eye(len(given)), strict=True):
            up, down = (
                self.with_parameters(given + step * unit).log_z(mean, variance, target)
                for step in (DIFFERENCE, -DIFFERENCE)
            )
            column[:] = (up - down) / (2 * DIFFERENCE)
        return columns.T

    def to_json(self) -> dict[str, Any]:
        """Return the name and fields as plain JSON values."""
        pairs = asdict(self).items()
        return {"name": self.name, **{k: list(x) if isinstance(x, tuple) else x for k, x in pairs}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Likelihood":
        """Return the likelihood described by the result of `to_json`.

        Raises
        ------
        SettingsError
            If the name or a field is unknown, or a value is out of range.
        """
        values = dict(data)
        return build(LIKELIHOODS[str(values.pop("name", ""))], [], values)
