"""GPyTorch's sparse variational Gaussian process, for comparison (extra ``baselines``)."""

import math
from dataclasses import dataclass
from typing import Any, Self

import gpytorch
import numpy as np
import torch
from gpytorch import kernels, variational
from sklearn.cluster import MiniBatchKMeans

from sparsegp.types import Doubles, Floats, Integers

SAMPLES, ROWS = 256, 1024
"""Latent values drawn for each predicted row, and rows predicted at a time."""


@dataclass
class SVGP:
    """The classifier of Hensman, Matthews and Ghahramani (2015), with a softmax, on one thread.

    The kernel is the sum of an RBF and a Matern-5/2, each with a variance and a length scale, and
    the same for every class. The length scales start as in this package, l^2 = (sum of the column
    variances) / 2, and the inducing points at the centres of k-means. Adam maximises the bound.
    """

    n_inducing: int  # inducing points
    epochs: int  # passes over the training rows
    batch: int = 512  # rows of a step
    rate: float = 0.02  # initial learning rate of Adam, with cosine annealing to zero
    full: bool = False  # full posterior covariance for each class; otherwise diagonal
    random_state: int = 0

    def fit(self, X: Floats, y: Integers) -> Self:
        """Maximise the evidence lower bound."""
        torch.set_num_threads(1)
        centres = MiniBatchKMeans(self.n_inducing, random_state=self.random_state, n_init=1).fit(X)
        length_scale = math.sqrt(float(X.var(axis=0, dtype=float).sum()) / 2.0) or 1.0
        inputs, codes = torch.as_tensor(X), torch.as_tensor(y, dtype=torch.int64)
        points = torch.as_tensor(centres.cluster_centers_, dtype=inputs.dtype)
        self._model = Latent(points, int(y.max()) + 1, self.full, length_scale).to(inputs.dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            self._ascend(inputs, codes, int(y.max()) + 1)
        self._model.eval()
        return self

    def _ascend(self, inputs: Any, codes: Any, n_classes: int) -> None:
        model, n = self._model, len(inputs)
        likelihood = gpytorch.likelihoods.SoftmaxLikelihood(None, n_classes, mixing_weights=False)
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
        adam = torch.optim.Adam(model.parameters(), lr=self.rate)
        steps = self.epochs * math.ceil(n / self.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
        model.train()
        for _ in range(self.epochs):
            for rows in torch.randperm(n).split(self.batch):
                adam.zero_grad()
                (-bound(model(inputs[rows]), codes[rows])).backward()
                adam.step()
                schedule.step()

    def predict_proba(self, X: Floats) -> Doubles:
        """Return class probabilities, (n, K), averaged over drawn latent values."""
        parts = []
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            for rows in torch.as_tensor(X).split(ROWS):
                # Rows are drawn independently: jointly, the library would draw from a low-rank
                # covariance, which loses more variance the more rows there are.
                latent = self._model(rows)
                mean, deviation = latent.mean, latent.variance.sqrt()
                drawn = mean + deviation * torch.randn(SAMPLES, *mean.shape, dtype=mean.dtype)
                parts.append(drawn.log_softmax(-1).logsumexp(0) - math.log(SAMPLES))
        return np.asarray(torch.cat(parts).double().exp().numpy())


class Latent(gpytorch.models.ApproximateGP):  # type: ignore[misc] # untyped
    """Latent functions, one per class, with a common kernel and common inducing points."""

    def __init__(self, points: Any, n_classes: int, full: bool, length_scale: float) -> None:
        family = variational.MeanFieldVariationalDistribution
        if full:
            family = variational.CholeskyVariationalDistribution
        posterior = family(len(points), batch_shape=torch.Size([n_classes]))
        one = variational.VariationalStrategy(self, points, posterior)
        super().__init__(variational.IndependentMultitaskVariationalStrategy(one, n_classes))
        self.mean, self.parts = gpytorch.means.ZeroMean(), torch.nn.ModuleList()
        for kernel in (kernels.RBFKernel(), kernels.MaternKernel(2.5)):
            kernel.lengthscale = length_scale
            self.parts.append(kernels.ScaleKernel(kernel))
            self.parts[-1].outputscale = 10.0

    def forward(self, x: Any) -> Any:
        """Return the prior of a latent function at inputs (n, p)."""
        covariance = self.parts[0](x) + self.parts[1](x)
        return gpytorch.distributions.MultivariateNormal(self.mean(x), covariance)
