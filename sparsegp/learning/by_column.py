"""Length scales for every column, by the slopes of the log probability of rows held out.

Each half of the rows is predicted by a small fit to the other: the softmax of latent values f = K a
with the kernel matrix K of rows and some active rows, and the coefficients a at the maximum of

    J(a) = sum_i w_i log p(y_i | f_i) - tr(a^T K_u a) / 2,

where K_u is that of the active rows. It stands in for the fit of a run, and needs neither selection
nor quadrature. The log probability Q of the half held out depends on the parameters t of the kernel
directly and by a. With r = dQ/df of the rows held out, s and W the slope and the negative curvature
of the others, A the negative Hessian of J, and l = A^-1 K^T r,

    dQ/dt = <r a^T, dK_held/dt> + <s l^T - (W K l) a^T, dK_others/dt> - <l a^T, dK_u/dt>

by the theorem of implicit functions (Larsen, Hansen, Svarer & Ohlsson 1996; Chapelle, Vapnik,
Bousquet & Mukherjee 2002). So the slopes in all parameters take one solution of a linear system for
each half, and one look at the kernel matrix. Where a is not quite at the maximum, Q is that of one
more Newton step to first order: Q + <l, dJ/da>.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.kernels import ARD, RBF, ByColumn, Kernel, Laplace, Product, Sum, parse, six_digits
from sparsegp.learning.numbers import are_numbers, rows_of
from sparsegp.learning.softmax import Softmax
from sparsegp.math.lbfgs import Ascent
from sparsegp.math.linalg import (
    jittered_cholesky,
    lower_cholesky,
    solve_factored,
    solve_lower,
    solved_in_place,
)
from sparsegp.types import Doubles, Floats, Integers

FIRST, LONGEST = 0.5, 1.0
"""By how much the logarithm of a parameter changes in the first round, and may in any."""
SHORTEST = 1 / 8
"""Part of a step from which no shorter one is tried: values depend a little on former fits."""
SMALL = 0.001
"""Gain of the last round, relative to the log probability."""
RIDGE = 2.0
"""Weight of half the squared distance of the logarithms from where they began, in nats. Of 1/2, 2
and 8 the best with 400 rows, on splits of the training rows of twelve tables.
"""
JITTER = 1e-5
"""On the diagonal of the kernel matrix of the active rows, relative to its mean."""
CONJUGATE = 60
"""Steps of the solution of a linear system, at most."""
PIECE = 32
"""Active rows whose slopes are taken at a time, so that temporaries stay in cache."""
GAIN, ACCURACY = 3e-5, 0.01
"""Nats a row by which the last round of a small fit gains; and relative error of a solution."""


def learn_by_column(
    kernel: Kernel,
    X: Floats,
    target: Any,
    weights: Doubles,
    groups: Integers | None = None,
    *,
    n_active: int,
    rounds: int,
    small: float = SMALL,
) -> tuple[Kernel, float]:
    """Return the kernel with the parameters with which held-out rows are likeliest.

    Active rows are spread evenly over the rows. With the kernel comes the mean of -log p of the
    rows, each predicted by the fit to the other half.

    Parameters
    ----------
    kernel : Kernel
        To begin with; see `with_scale_of_each`.
    X : Floats (n, p)
        In an order whose every stretch is a sample of the whole; large products have its precision.
    target : array (n,)
        Class codes, or numbers.
    weights : Doubles (n,)
        Of the rows.
    groups : Integers (p,), optional
        Numbers of the columns; those of one number share a length scale.
    n_active, rounds : int
        Active rows, and rounds of the ascent, at most.
    small : float
        Gain of a round, relative to the log probability, from which no more follow.

    Raises
    ------
    NumericalError
        If the kernel does not suit the rows.
    """
    held_out = HeldOut.of(X, target, weights, n_active)
    shared = _shared(kernel, np.arange(X.shape[1]) if groups is None else groups)
    begun = np.empty(int(shared.max()) + 1)
    begun[shared] = kernel.parameters()

    def function(logs: Doubles) -> tuple[float, Doubles]:
        value, slopes = held_out.value_and_slopes(kernel.with_parameters(logs[shared]))
        away = logs - begun
        return value - 0.5 * RIDGE * float(away @ away), np.bincount(shared, slopes) - RIDGE * away

    ascent = Ascent.at(begun, function)
    step = FIRST / (float(np.abs(ascent.gradient).max()) or 1.0)
    bounds: dict[str, Any] = {"longest": LONGEST, "shortest": SHORTEST}
    for _ in range(rounds):
        least = small * abs(ascent.value)
        if ascent.step(function, lambda right: step * right, 0.5 * least, **bounds) <= least:
            break
    away = ascent.point - begun
    log_p = ascent.value + 0.5 * RIDGE * float(away @ away)
    learnt = parse(six_digits(str(kernel.with_parameters(ascent.point[shared]))))
    if log_p > 0.0 and not are_numbers(target):
        raise NumericalError(
            f"small fits must come near their maximum, but with {learnt} did not; use a kernel "
            "of smaller variance"
        )
    return learnt, -log_p / float(weights.sum())


def _shared(kernel: Kernel, groups: Integers) -> Integers:
    """Return numbers of the parameters (q,), the same for length scales of one group."""
    numbers, total = [], 0
    for part in _parts(kernel):
        own = np.arange(len(part.parameters()))
        if isinstance(part, ByColumn):
            stretches = len(own) // len(groups)
            own = (groups[:, np.newaxis] * stretches + np.arange(stretches)).ravel()
        numbers.append(own + total)
        total = int(numbers[-1].max()) + 1
    return np.unique(np.concatenate(numbers), return_inverse=True)[1]


def _parts(kernel: Kernel) -> Iterator[Kernel]:
    """Yield what sums and products are made of."""
    if isinstance(kernel, (Sum, Product)):
        for part in kernel.parts:
            yield from _parts(part)
    else:
        yield kernel


def with_scale_of_each(kernel: Kernel, p: int) -> Kernel:
    """Return the same function with a length scale for each of p columns, where it can have that.

    Every ``rbf`` becomes an ``ard``.
    """
    if isinstance(kernel, (Sum, Product)):
        return type(kernel)(tuple(with_scale_of_each(part, p) for part in kernel.parts))
    if isinstance(kernel, RBF):
        return ARD((kernel.length_scale or 1.0,) * p)
    if isinstance(kernel, ByColumn) and not kernel.has_scale_of_each(p):
        return kernel.with_length_scales(np.broadcast_to(kernel.scales, p).tolist())
    return kernel


def stretched(kernel: Kernel, p: int) -> Kernel:
    """Return the same function with four length scales for every column of a `Laplace`."""
    if isinstance(kernel, (Sum, Product)):
        return type(kernel)(tuple(stretched(part, p) for part in kernel.parts))
    return kernel.stretched(p) if isinstance(kernel, Laplace) else kernel


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows, each half of which is held out once.

    Attributes
    ----------
    X : Floats (n, p)
    target : array (n,)
    n_classes : int
    weights : Doubles (n,)
    active : Integers (m,)
        Active rows.
    former : dict of int to Floats (n / 2, K)
        Latent values of the last fit to each half, near which those of the next begin.
    """

    X: Floats
    target: Any
    n_classes: int
    weights: Doubles
    active: Integers
    former: dict[int, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Floats, target: Any, weights: Doubles, n_active: int) -> "HeldOut":
        """Divide rows whose every stretch is a sample of the whole."""
        n, n_classes = len(X), max(int(target.max()) + 1, 2)  # a rare class may be left out
        m = min(n, n_active)
        return cls(X, target, n_classes, weights, np.arange(m) * n // m)

    @property
    def halves(self) -> tuple[slice, slice]:
        """The rows of each half."""
        middle = -(-len(self.X) // 2)
        return slice(0, middle), slice(middle, len(self.X))

    def value_and_slopes(self, kernel: Kernel) -> tuple[float, Doubles]:
        """Return the log probability of all rows, each held out, and its slopes, (q,).

        The slopes are in the logarithms of the parameters of the kernel.
        """
        X, U = self.X, self.X[self.active]
        own = np.asarray(kernel(U.astype(np.float64), U.astype(np.float64)), np.float64)
        factor, _ = jittered_cholesky(own, "the kernel of active rows", least=JITTER)
        lower: Any = factor.astype(X.dtype)
        features, pulls_back = np.empty((len(U), len(X)), X.dtype), []
        pieces = [slice(first, first + PIECE) for first in range(0, len(U), PIECE)]
        for piece in pieces:
            features[piece], pull_back = kernel.with_pull_back(U[piece], X)
            pulls_back.append(pull_back)
        features = solved_in_place(lower, features)
        total, own = 0.0, np.zeros_like(lower)
        of_active: list[list[Floats]] = [[], []]
        of_rows: list[list[Floats]] = [[], []]
        for half, others in enumerate(self.halves):
            held = self.halves[1 - half]
            fit, judge = self._fit(half, features[:, others]), self._rows(held, features[:, held])
            log_p, rest = judge.judged(judge.latent(fit.point))
            slope = judge.weighted(rest)
            back = fit.solve(judge.pulled(slope))
            total += float(judge.weighted(log_p).sum(dtype=np.float64))
            total += float(np.vdot(back, fit.gradient))
            of_fit = solve_lower(factor, np.hstack([fit.point, back]), transposed=True)
            a, b = np.hsplit(of_fit.astype(X.dtype), 2)
            of_active[half] += [b, a]
            of_rows[half] += [fit.slope, -fit.bend(fit.rows.latent(back))]
            of_active[1 - half] += [a]
            of_rows[1 - half] += [slope]
            own -= a @ b.T
        pairs = [(np.hstack(a), np.hstack(b).T) for a, b in zip(of_active, of_rows, strict=True)]
        slopes = np.zeros(len(kernel.parameters()))
        for piece, pull_back in zip(pieces, pulls_back, strict=True):
            pull = np.hstack([a[piece] @ b for a, b in pairs])
            pull[:, self.active] += own[piece]
            slopes += pull_back(pull)
        return total, slopes

    def _fit(self, half: int, features: Floats) -> "Fit":
        """Fit a half of the rows, and remember it."""
        rows = self._rows(self.halves[half], features)
        zero = np.zeros((features.shape[1], rows.n_latent), features.dtype)
        fit = Fit(rows, self.former.get(half, zero))
        self.former[half] = fit.latent
        return fit

    def _rows(self, rows: slice, features: Floats) -> Softmax:
        return rows_of(features, self.target[rows], self.n_classes, self.weights[rows])


class Fit:
    """Coefficients c near the maximum of the log likelihood less |c|^2 / 2.

    The ascent begins with a step of Newton's method from former latent values. Its metric is the
    curvature there, averaged over the classes as if they were independent.

    Parameters
    ----------
    rows : Softmax
    near : Floats (n, K)
        Latent values, of another kernel.

    Attributes
    ----------
    factor : Doubles (m, m)
        Of the metric.
    point, gradient : Doubles (m, K)
    latent, slope, probability : Floats (n, K)
        Latent values there, slope of the log likelihood in them, and probabilities.
    """

    def __init__(self, rows: Softmax, near: Floats) -> None:
        self.rows = rows
        rest = rows.log_p_and_rest(near)[1]
        p = rows.probability(rest)
        curvature = rows.curvature(p)
        self.factor = self._factor(rows.weighted(curvature))
        newton = rows.pulled(rows.weighted(curvature[:, np.newaxis] * near + rest))

        def function(c: Doubles) -> tuple[float, Doubles]:
            return rows.value_and_gradient(c, c)

        ascent = Ascent.at(self._near(newton), function)
        rows.climb(ascent, function, self._near, GAIN)
        self.point, self.gradient = ascent.point, ascent.gradient
        self.latent = rows.latent(self.point)
        rest = rows.log_p_and_rest(self.latent)[1]
        self.slope, self.probability = rows.weighted(rest), rows.probability(rest)

    def bend(self, latent: Floats) -> Floats:
        """Return minus the Hessian of the log likelihood times changes of latent values, (n, K)."""
        return self.rows.bend(self.probability, latent)

    def solve(self, right: Doubles) -> Doubles:
        """Return A^-1 right, (m, K), with A minus the Hessian, by conjugate gradients.

        The error is at most `ACCURACY` of the whole, in the norm of the metric.
        """
        x, rest = np.zeros_like(right), right.copy()
        near = self._near(rest)
        direction, size = near, float(np.vdot(rest, near))
        small = ACCURACY**2 * size
        for _ in range(CONJUGATE):
            if size <= small:
                break
            image = self._times(direction)
            length = size / float(np.vdot(direction, image))
            x += length * direction
            rest -= length * image
            near = self._near(rest)
            former, size = size, float(np.vdot(rest, near))
            direction = near + (size / former) * direction
        return x

    def _times(self, x: Doubles) -> Doubles:
        return self.rows.pulled(self.bend(self.rows.latent(x))) + x

    def _near(self, right: Doubles) -> Doubles:
        """Return what the metric would have for A, (m, K)."""
        return solve_factored(self.factor, right)

    def _factor(self, curvature: Floats) -> Doubles:
        """Return the lower factor of I + F W F^T with curvatures W of the rows, (n,)."""
        scaled = self.rows.features * np.sqrt(curvature)
        metric = (scaled @ scaled.T).astype(np.float64)
        metric[np.diag_indices_from(metric)] += 1.0
        return lower_cholesky(metric, "the curvature of a small fit", in_place=True)
