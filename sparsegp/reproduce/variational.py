"""A sparse variational Gaussian process of GPyTorch to compare with; the extra ``rivals``.

Hensman, Matthews and Ghahramani (2015), with a softmax of one latent function a class: the bound is
ascended in small batches by Adam, and with it the kernel and the places of the inducing points.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gpytorch
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    IndependentMultitaskVariationalStrategy,
    MeanFieldVariationalDistribution,
    VariationalStrategy,
)
from sklearn.cluster import MiniBatchKMeans

from sparsegp.errors import SettingsError
from sparsegp.types import Doubles, Integers

FIRST_VARIANCE = 10.0
"""Of each part of the kernel at the start."""

SAMPLES = 256
"""Latent values drawn for each row whose probabilities are wanted."""

ROWS = 1024
"""Rows that are predicted at once."""


@dataclass
class VariationalClassifier:
    """The classifier, as scikit-learn would have it, on one thread.

    The kernel is the sum of an RBF and a Matern-5/2, each with a variance and a length scale, and
    the same for every class. The length scales start where ours do, l^2 = (sum of the variances of
    the columns) / 2. The inducing points start at the centres of k-means. Adam's rate falls to zero
    by a cosine.

    Parameters
    ----------
    n_inducing : int
        Inducing points, M.
    epochs : int
        Passes over the training rows.
    batch : int
        Rows of a step.
    rate : float
        Of Adam at the start.
    full : bool
        Whether the covariance of the posterior at the inducing points, whitened, is free for each
        class; else it is diagonal.
    seed : int

    Attributes
    ----------
    n_iter_ : int
        Steps made.
    kernel_ : str
        The kernel found, as texts of kernels are written here.
    bound_ : float
        Mean evidence lower bound a row in the last epoch, in nats.
    """

    n_inducing: int
    epochs: int
    batch: int
    rate: float
    full: bool
    seed: int
    n_iter_: int = field(default=0, init=False)
    kernel_: str = field(default="", init=False)
    bound_: float = field(default=math.nan, init=False)

    def __post_init__(self) -> None:
        torch.set_num_threads(1)

    def fit(self, X: Any, target: Integers) -> "VariationalClassifier":
        """Ascend the bound.

        Parameters
        ----------
        X : (n, p) floats
        target : Integers (n,)
            Codes of the classes, from 0.

        Raises
        ------
        SettingsError
            If there are fewer rows than inducing points.
        """
        if len(X) < self.n_inducing:
            raise SettingsError(
                f"n_active={self.n_inducing} exceeds the {len(X)} training rows; lower it"
            )
        centres = MiniBatchKMeans(self.n_inducing, random_state=self.seed, n_init=1).fit(X)
        n_classes = int(target.max()) + 1
        length_scale = math.sqrt(float(X.var(axis=0, dtype=float).sum()) / 2.0) or 1.0
        inputs, codes = torch.as_tensor(X), torch.as_tensor(target, dtype=torch.int64)
        points = torch.as_tensor(centres.cluster_centers_, dtype=inputs.dtype)
        self._model = _Latent(points, n_classes, self.full, length_scale).to(inputs.dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._ascend(inputs, codes, n_classes)
        self._model.eval()
        self.kernel_ = self._model.kernel_text()
        return self

    def _ascend(self, inputs: Any, codes: Any, n_classes: int) -> None:
        model, n = self._model, len(inputs)
        likelihood = gpytorch.likelihoods.SoftmaxLikelihood(
            num_classes=n_classes, mixing_weights=False
        )
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
        adam = torch.optim.Adam(model.parameters(), lr=self.rate)
        steps = self.epochs * math.ceil(n / self.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
        model.train()
        for _ in range(self.epochs):
            total = 0.0
            for rows in torch.randperm(n).split(self.batch):
                adam.zero_grad()
                gain = bound(model(inputs[rows]), codes[rows])
                (-gain).backward()
                adam.step()
                schedule.step()
                total += gain.item() * len(rows)
            self.bound_ = total / n
        self.n_iter_ = steps

    def predict_log_proba(self, X: Any) -> Doubles:
        """Return log probabilities of inputs (n, p), (n, K): the mean over latent values drawn."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            found: Doubles = torch.cat(list(self._log_probabilities(X))).double().numpy()
        return found

    def _log_probabilities(self, X: Any) -> Iterator[Any]:
        for rows in torch.as_tensor(X).split(ROWS):
            # Each row by itself: for many rows at once the library draws from a covariance of
            # lower rank, which loses variance, the more the more rows there are.
            latent = self._model(rows)
            mean, deviation = latent.mean, latent.variance.sqrt()
            drawn = mean + deviation * torch.randn(SAMPLES, *mean.shape, dtype=mean.dtype)
            yield drawn.log_softmax(-1).logsumexp(0) - math.log(SAMPLES)

    def predict(self, X: Any) -> Integers:
        """Return the most probable classes of inputs (n, p), (n,)."""
        codes: Integers = self.predict_log_proba(X).argmax(axis=1)
        return codes


class _Latent(gpytorch.models.ApproximateGP):  # type: ignore[misc] # untyped
    """Latent functions, one a class, with a kernel and inducing points in common."""

    def __init__(self, points: Any, n_classes: int, full: bool, length_scale: float) -> None:
        family = CholeskyVariationalDistribution if full else MeanFieldVariationalDistribution
        posterior = family(len(points), batch_shape=torch.Size([n_classes]))
        one = VariationalStrategy(self, points, posterior)
        super().__init__(IndependentMultitaskVariationalStrategy(one, n_classes))
        self.mean = gpytorch.means.ZeroMean()
        self.parts = torch.nn.ModuleDict(
            {
                name: _scaled(kernel, length_scale)
                for name, kernel in (("rbf", RBFKernel()), ("matern52", MaternKernel(2.5)))
            }
        )

    def forward(self, x: Any) -> Any:
        """Return the prior of the latent values at inputs (n, p)."""
        covariance = self.parts["rbf"](x) + self.parts["matern52"](x)
        return gpytorch.distributions.MultivariateNormal(self.mean(x), covariance)

    def kernel_text(self) -> str:
        """Return the kernel in words."""
        return " + ".join(
            f"{part.outputscale.item():.4g}*{name}({part.base_kernel.lengthscale.item():.4g})"
            for name, part in self.parts.items()
        )


def _scaled(kernel: Any, length_scale: float) -> Any:
    kernel.lengthscale = length_scale
    scaled = ScaleKernel(kernel)
    scaled.outputscale = FIRST_VARIANCE
    return scaled
