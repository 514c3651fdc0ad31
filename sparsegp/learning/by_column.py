"""Length scales for every column, by the slopes of the log probability of rows held out.

Rows are divided into parts, and each part is predicted by a small fit to the others: the softmax of
latent values f = K a, with the kernel matrix K of rows and some active rows, and the coefficients a
at the maximum of

    J(a) = sum_i w_i log p(y_i | f_i) - tr(a^T K_u a) / 2,

where K_u is that of the active rows. It stands in for the fit of a run, and needs neither selection
nor quadrature. The log probability Q of the part held out depends on the parameters t of the kernel
directly and by a. With r = dQ/df of the rows held out, s and W the slope and the negative curvature
of the others, A the negative Hessian of J, and l = A^-1 K^T r,

    dQ/dt = <r a^T, dK_held/dt> + <s l^T - (W K l) a^T, dK_others/dt> - <l a^T, dK_u/dt>

by the theorem of implicit functions (Larsen, Hansen, Svarer & Ohlsson 1996; Chapelle, Vapnik,
Bousquet & Mukherjee 2002). So the slopes in all parameters take one solution of a linear system for
each part, and one look at the kernel matrix. Where a is not quite at the maximum, Q is that of one
more Newton step to first order: Q + <l, dJ/da>.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit, log_expit, log_softmax, softmax

from sparsegp.kernels import ARD, RBF, ByColumn, Kernel, Product, Sum, parse, six_digits
from sparsegp.math.lbfgs import Ascent
from sparsegp.math.linalg import jittered_cholesky, lower_cholesky, solve_lower
from sparsegp.types import Doubles, Floats, Integers

PARTS = 2
"""That are held out in turn: more take longer and are hardly better."""
MOST_ACTIVE = 300
ROUNDS, FIRST, LONGEST = 12, 0.5, 1.0
"""Of the ascent; and by how much the logarithm of a parameter changes in the first, and may in any.
"""
SMALL = 0.001
"""Gain of a round, relative to the log probability, from which no more follow."""
RIDGE = 2.0
"""Weight of half the squared distance of the logarithms from where they began, in nats. Of 1/2, 2
and 8 the best with 400 rows, on splits of the training rows of twelve tables.
"""
JITTER = 1e-5
"""On the diagonal of the kernel matrix of the active rows, relative to its mean."""
NEWTON, CONJUGATE = 25, 60
"""Steps of a small fit, and of the solution of a linear system, at most."""
DECREMENT, ACCURACY = 0.05, 0.03
"""Nats that one more step of a small fit is worth at its end; and relative error of a solution."""


def learn_by_column(
    kernel: Kernel,
    X: Floats,
    target: Integers,
    weights: Doubles,
    groups: Integers | None = None,
) -> Kernel:
    """Return the kernel with a length scale for every column, where held-out rows are likeliest.

    Other parameters are learnt with them. Parts and active rows are spread evenly over the rows.

    Parameters
    ----------
    kernel : Kernel
        To begin with.
    X : Floats (n, p)
        In an order whose every stretch is a sample of the whole; large products have its precision.
    target : Integers (n,)
        Class codes.
    weights : Doubles (n,)
        Of the rows.
    groups : Integers (p,), optional
        Numbers of the columns; those of one number share a length scale.

    Raises
    ------
    NumericalError
        If the kernel does not suit the rows.
    """
    kernel, held_out = with_scale_of_each(kernel, X.shape[1]), HeldOut.of(X, target, weights)
    shared = _shared(kernel, np.arange(X.shape[1]) if groups is None else groups)
    begun = np.empty(int(shared.max()) + 1)
    begun[shared] = kernel.parameters()

    def function(logs: Doubles) -> tuple[float, Doubles]:
        value, slopes = held_out.value_and_slopes(kernel.with_parameters(logs[shared]))
        away = logs - begun
        return value - 0.5 * RIDGE * float(away @ away), np.bincount(shared, slopes) - RIDGE * away

    ascent = Ascent.at(begun, function)
    step = FIRST / (float(np.abs(ascent.gradient).max()) or 1.0)

    def near(logs: Doubles) -> Doubles:
        return np.asarray(np.clip(logs, ascent.point - LONGEST, ascent.point + LONGEST))

    for _ in range(ROUNDS):
        gain = ascent.step(function, lambda right: step * right, project=near)
        if gain <= SMALL * abs(ascent.value):
            break
    return parse(six_digits(str(kernel.with_parameters(ascent.point[shared]))))


def _shared(kernel: Kernel, groups: Integers) -> Integers:
    """Return numbers of the parameters (q,), the same for length scales of one group."""
    names, p = kernel.parameter_names, len(groups)
    numbers = np.arange(len(names))
    places = np.flatnonzero([name.endswith("length_scales") for name in names])
    part, column = np.divmod(np.arange(len(places)), p)
    numbers[places] = len(names) + part * p + groups[column]
    return np.unique(numbers, return_inverse=True)[1]


def with_scale_of_each(kernel: Kernel, p: int) -> Kernel:
    """Return the same function with a length scale for each of p columns, where it can have that.

    Every ``rbf`` becomes an ``ard``.
    """
    if isinstance(kernel, (Sum, Product)):
        return type(kernel)(tuple(with_scale_of_each(part, p) for part in kernel.parts))
    if isinstance(kernel, RBF):
        return ARD((kernel.length_scale or 1.0,) * p)
    if isinstance(kernel, ByColumn):
        return kernel.with_length_scales(np.broadcast_to(kernel.scales, p).tolist())
    return kernel


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows, each of which is held out once.

    Attributes
    ----------
    X : Floats (n, p)
    own : Doubles (n, R)
        1 for the latent value of the own class, else 0. Two classes share one latent value, which
        is that of the second.
    weights : Doubles (n,)
    active : Integers (m,)
        Active rows.
    part : Integers (n,)
        With which rows are held out.
    former : dict of int to Doubles (m, R)
        Coefficients of the last fits, by part, to begin with.
    """

    X: Floats
    own: Doubles
    weights: Doubles
    active: Integers
    part: Integers
    former: dict[int, Doubles] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Floats, target: Integers, weights: Doubles) -> "HeldOut":
        """Divide rows whose every stretch is a sample of the whole."""
        n, n_classes = len(X), max(int(target.max()) + 1, 2)  # a rare class may be left out
        own = (target[:, np.newaxis] == np.arange(n_classes)).astype(np.float64)
        m = min(n, MOST_ACTIVE)
        active, part = np.arange(m) * n // m, np.arange(n) * PARTS // n
        return cls(X, own if n_classes > 2 else own[:, 1:], weights, active, part)

    def value_and_slopes(self, kernel: Kernel) -> tuple[float, Doubles]:
        """Return the log probability of all rows, each held out, and its slopes, (q,).

        The slopes are in the logarithms of the parameters of the kernel.
        """
        X, U = self.X, self.X[self.active].astype(np.float64)
        own = kernel(U, U).astype(np.float64, copy=False)
        factor, _ = jittered_cholesky(own, "the kernel of active rows", least=JITTER)
        matrix, lower = kernel(X, X[self.active]), factor.astype(X.dtype)
        features = solve_triangular(lower, matrix.T, lower=True, check_finite=False).T
        total, pull = 0.0, np.zeros(matrix.shape)
        for part in range(PARTS):
            held = self.part == part
            start = factor.T @ self.former.get(part, np.zeros((len(U), self.own.shape[1])))
            fit = Fit(features[~held], self.own[~held], self.weights[~held], start)
            log_p, slope = self._predicted(features, held, fit)
            right = np.asarray(features[held].T @ slope.astype(X.dtype), np.float64)
            back = fit.solve(right, ACCURACY)
            total += log_p + float(np.vdot(back, fit.gradient))
            bent = fit.bend(fit.latent(back))
            a, b = (solve_lower(factor, each, transposed=True) for each in (fit.point, back))
            self.former[part] = a
            pull[held] += slope @ a.T
            pull[~held] += fit.slope @ b.T - bent @ a.T
            pull[self.active] -= b @ a.T
        return total, kernel.pull_back(X, U, pull)

    def _predicted(self, features: Floats, held: Integers, fit: "Fit") -> tuple[float, Doubles]:
        """Return the log probability of rows held out, and its slopes in their latent values."""
        latent = np.asarray(features[held] @ fit.point.astype(features.dtype), np.float64)
        weights = self.weights[held]
        log_p, probability = of_own(latent, self.own[held])
        return float(weights @ log_p), weights[:, np.newaxis] * (self.own[held] - probability)


def of_own(latent: Doubles, own: Doubles) -> tuple[Doubles, Doubles]:
    """Return log probabilities of the own classes (n,), and the probabilities of all, (n, R)."""
    if latent.shape[1] == 1:
        return log_expit((2.0 * own - 1.0) * latent)[:, 0], np.asarray(expit(latent))
    return (log_softmax(latent, axis=1) * own).sum(axis=1), np.asarray(softmax(latent, axis=1))


class Fit:
    """Coefficients near the maximum of a penalised log likelihood, by Newton's method.

    Parameters
    ----------
    features : Floats (n, m)
        Latent values are features times coefficients, whose penalty is half their square.
    own : Doubles (n, R)
    weights : Doubles (n,)
    start : Doubles (m, R)

    Attributes
    ----------
    point : Doubles (m, R)
    value : float
        The penalised log likelihood.
    slope, probability : Doubles (n, R)
        Slope of the log likelihood in the latent values, and probabilities.
    gradient : Doubles (m, R)
    """

    def __init__(self, features: Floats, own: Doubles, weights: Doubles, start: Doubles) -> None:
        self.features, self.own, self.weights = features, own, weights[:, np.newaxis]
        self._move(start)
        for _ in range(NEWTON):
            self._precondition()
            step = self.solve(self.gradient, 0.1)
            decrement = float(np.vdot(step, self.gradient))
            point, value, length = self.point, self.value, 1.0
            self._move(point + step)
            while self.value < value and length > 1e-3:
                length /= 2.0
                self._move(point + length * step)
            if decrement < 2.0 * DECREMENT:
                break

    def latent(self, coefficients: Doubles) -> Doubles:
        """Return latent values, (n, R)."""
        return np.asarray(self.features @ coefficients.astype(self.features.dtype), np.float64)

    def bend(self, latent: Doubles) -> Doubles:
        """Return minus the Hessian of the log likelihood times changes of latent values, (n, R)."""
        bent = self.probability * latent
        if latent.shape[1] == 1:
            bent = bent - self.probability * bent
        else:
            bent = bent - self.probability * bent.sum(axis=1, keepdims=True)
        return np.asarray(self.weights * bent)

    def solve(self, right: Doubles, accuracy: float) -> Doubles:
        """Return A^-1 right, (m, R), with A minus the Hessian, by conjugate gradients.

        The error is so small a part of the whole, in the norm of the metric.
        """
        x, rest = np.zeros_like(right), right.copy()
        near = cho_solve((self.factor, True), rest, check_finite=False)
        direction, size = near, float(np.vdot(rest, near))
        small = accuracy**2 * size
        for _ in range(CONJUGATE):
            if size <= small:
                break
            bent = self.bend(self.latent(direction)).astype(self.features.dtype)
            image = self.features.T @ bent + direction
            length = size / float(np.vdot(direction, image))
            x += length * direction
            rest -= length * image
            near = cho_solve((self.factor, True), rest, check_finite=False)
            former, size = size, float(np.vdot(rest, near))
            direction = near + (size / former) * direction
        return x

    def _move(self, point: Doubles) -> None:
        latent = self.latent(point)
        log_p, self.probability = of_own(latent, self.own)
        self.point = point
        self.value = float(self.weights[:, 0] @ log_p) - 0.5 * float(np.vdot(point, point))
        self.slope = self.weights * (self.own - self.probability)
        self.gradient = self.features.T @ self.slope.astype(self.features.dtype) - point

    def _precondition(self) -> None:
        """Factor A with the curvature that latent values have on average, as if independent."""
        classes = self.own.shape[1]
        curvature = (self.probability * (1.0 - self.probability)).mean(axis=1, keepdims=True)
        curvature *= self.weights * (classes / max(1, classes - 1))
        scaled = self.features * np.sqrt(curvature).astype(self.features.dtype)
        metric = (scaled.T @ scaled).astype(np.float64)
        metric[np.diag_indices_from(metric)] += 1.0
        self.factor = lower_cholesky(metric, "the curvature of a small fit")
