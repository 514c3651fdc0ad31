"""Per-column length scales (ARD), learnt by gradient ascent on the held-out log probability.

Each half of the rows is predicted by a small fit to the other: the softmax of latent values f = K a
with the kernel matrix K between rows and some active rows, and the coefficients a that maximise

    J(a) = sum_i w_i log p(y_i | f_i) - tr(a^T K_u a) / 2,

where K_u is the kernel matrix of the active rows. This approximates the fit of a run, and needs
neither selection nor quadrature. The log probability Q of the held-out half depends on the kernel
parameters t directly and through a. With r = dQ/df of the held-out rows, s and W the gradient and
the negative curvature of the others, A the negative Hessian of J, and l = A^-1 K^T r,

    dQ/dt = <r a^T, dK_held/dt> + <s l^T - (W K l) a^T, dK_others/dt> - <l a^T, dK_u/dt>

by the implicit function theorem (Larsen, Hansen, Svarer & Ohlsson 1996; Chapelle, Vapnik, Bousquet
& Mukherjee 2002). So the gradient in all parameters takes one linear solve per half, and one pass
over the kernel matrix. As a is not quite at the maximum, Q is corrected to first order for one more
Newton step: Q + <l, dJ/da>.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from sparsegp.errors import NumericalError
from sparsegp.kernels import ARD, RBF, ByColumn, Kernel, Laplace, Product, Sum, parse, six_digits
from sparsegp.learning.linear_rows import SoftmaxRows, is_regression_target, make_rows
from sparsegp.math import linalg
from sparsegp.math.lbfgs import Ascent
from sparsegp.math.subnormals import drop_tiny
from sparsegp.types import Booleans, Doubles, Floats, Integers

LONGEST = 1.0
"""Largest change of a log parameter in an iteration."""
SHORTEST = 1 / 8
"""Smallest fraction of a step that is tried: values depend slightly on earlier fits."""
LEAST_EXPLAINED = 0.02
"""Minimum, as a fraction of the class entropy, of what gains are relative to; see `magnitude`."""
RIDGE = 2.0
"""Penalty, in nats, on half the squared distance of the log parameters from their initial values.
Chosen for 400 rows on splits of the training rows of twelve tables."""
JITTER = 1e-5
"""Minimum jitter of the kernel matrix of the active rows, relative to its mean diagonal."""
MAX_CG_ITERATIONS = 60
"""Maximum number of conjugate gradient iterations for one linear system."""
MIN_ROWS_PER_SEGMENT = 20
"""Minimum number of rows per segment of a warped column; with fewer, warping is noise."""
PIECE = 128
"""Active rows whose gradients are computed at a time, times the mean number of columns that share a
length scale: temporaries must stay in cache, but matrix products for the indicators of categories
prepare the other rows each time."""
FIT_TOLERANCE, CG_TOLERANCE = 3e-5, 0.01
"""Gain per row, in nats, at which a small fit stops; relative residual at which a solve stops."""


class Pace(NamedTuple):
    """How fast an ascent proceeds.

    The change of a log parameter in the first iteration is `first` g / (e |g| + (1 - e) g_max),
    where g is its slope and g_max the largest |g|. A positive evenness e also moves parameters with
    small slopes, whose curvature is often small as well.
    """

    rounds: int  # maximum number of iterations
    tolerance: float = 0.001  # relative gain of an iteration at which the ascent stops
    first: float = 0.5
    evenness: float = 0.0


def learn_by_column(
    kernel: Kernel,
    X: Floats,
    target: Any,
    weights: Doubles,
    groups: Integers | None = None,
    *,
    n_active: int,
    pace: Pace,
) -> tuple[Kernel, float]:
    """Return the kernel with the parameters that maximise the two-fold held-out log probability.

    Also return the mean of -log p over the rows, each predicted by the fit to the other half. The
    active rows are spread evenly over the rows.

    Parameters
    ----------
    kernel : Kernel
        Initial kernel; see `with_ard`.
    X : Floats (n, p)
        Scaled inputs, ordered so that every contiguous range of rows is a representative sample.
        Large products are computed in their precision.
    target : array (n,)
        Class codes, or targets of a regression.
    weights : Doubles (n,)
        Row weights.
    groups : Integers (p,), optional
        Group of each column; the columns of a group share a length scale.
    n_active : int
        Maximum number of active rows.
    pace : Pace
        Its tolerance is relative to the log probability or, if smaller, to its excess over
        prediction by the class shares.

    Raises
    ------
    NumericalError
        If the kernel does not suit the rows.
    """
    groups = np.arange(X.shape[1]) if groups is None else groups
    piece = PIECE * (len(groups) // (int(groups.max()) + 1))
    held_out, shared = HeldOut(X, target, weights, n_active, piece), _shared(kernel, groups, X)
    start = np.empty(int(shared.max()) + 1)
    start[shared] = kernel.parameters()

    def function(logs: Doubles) -> tuple[float, Doubles]:
        value, gradient = held_out.value_and_gradient(kernel.with_parameters(logs[shared]))
        moved = logs - start
        value -= 0.5 * RIDGE * float(moved @ moved)
        return value, np.bincount(shared, gradient) - RIDGE * moved

    ascent = Ascent.at(start, function)
    slopes, evenness = np.abs(ascent.gradient), pace.evenness
    steps = pace.first / (evenness * slopes + (1.0 - evenness) * (float(slopes.max()) or 1.0))
    bounds: dict[str, Any] = {"longest": LONGEST, "shortest": SHORTEST}
    for _ in range(pace.rounds):
        least = pace.tolerance * magnitude(ascent.value, target, weights)
        if ascent.step(function, lambda right: steps * right, 0.5 * least, **bounds) <= least:
            break
    moved = ascent.point - start
    log_p = ascent.value + 0.5 * RIDGE * float(moved @ moved)
    learnt = parse(six_digits(str(kernel.with_parameters(ascent.point[shared]))))
    if log_p > 0.0 and not is_regression_target(target):
        raise NumericalError(
            f"small fits must come near their maximum, but with {learnt} did not; use a kernel "
            "of smaller variance"
        )
    return learnt, -log_p / float(weights.sum())


def magnitude(log_p: float, target: Any, weights: Doubles) -> float:
    """Return the size of a log probability or, if smaller, of its excess over class shares."""
    if is_regression_target(target):
        return abs(log_p)
    shares = np.bincount(target, weights)
    entropy = float(entr(shares / shares.sum()).sum() * shares.sum())
    return min(abs(log_p), max(entropy + log_p, LEAST_EXPLAINED * entropy))


def _shared(kernel: Kernel, groups: Integers, X: Floats) -> Integers:
    """Return the index of the free parameter behind each parameter (q,), shared within groups.

    The segments of some columns also share one; see `_unwarped`.
    """
    numbers, total = [], 0
    for part in kernel.leaves:
        own = np.arange(len(part.parameters()))
        if isinstance(part, ByColumn):
            segments = len(own) // len(groups)
            places = groups[:, np.newaxis] * segments + np.arange(segments)
            if segments > 1:
                unwarped = _unwarped(part.scales.reshape(-1, segments), groups, X)
                places[unwarped] = places[unwarped, :1]
            own = places.ravel()
        numbers.append(own + total)
        total = int(numbers[-1].max()) + 1
    return np.unique(np.concatenate(numbers), return_inverse=True)[1]


def _unwarped(scales: Doubles, groups: Integers, X: Floats) -> Booleans:
    """Return a mask of the columns not to warp, given their segments' length scales (p, 4).

    If there are too few rows to warp all groups of columns, these are at first the least relevant
    columns and those with two values, and later those that were not warped before.
    """
    alike, n_groups = (scales == scales[:, :1]).all(axis=1), int(groups.max()) + 1
    if (count := len(X) // (MIN_ROWS_PER_SEGMENT * scales.shape[1])) >= n_groups:
        return np.zeros(len(groups), bool)
    if not alike.all():
        return np.asarray(alike)
    rates = np.zeros(n_groups)
    has_more = [len(np.unique(column)) > 2 for column in X.T]
    np.maximum.at(rates, groups, np.where(has_more, 1.0 / scales[:, 0], 0.0))
    warped = np.argsort(-rates, kind="stable")[:count]
    return np.asarray(~np.isin(groups, warped[rates[warped] > 0.0]))


def with_ard(kernel: Kernel, p: int) -> Kernel:
    """Return the same covariance function, with per-column length scales where possible."""
    if isinstance(kernel, (Sum, Product)):
        return type(kernel)(tuple(with_ard(part, p) for part in kernel.parts))
    if isinstance(kernel, RBF):
        return ARD((kernel.length_scale or 1.0,) * p)
    if isinstance(kernel, ByColumn) and not kernel.has_ard(p):
        return kernel.with_length_scales(np.broadcast_to(kernel.scales, p).tolist())
    return kernel


def can_have_ard(kernel: Kernel) -> bool:
    """Return whether `with_ard` makes a difference, or has made it."""
    return any(isinstance(leaf, (RBF, ByColumn)) for leaf in kernel.leaves)


def with_warping(kernel: Kernel, p: int) -> Kernel:
    """Return the same covariance function, with four length scales per column of `Laplace`."""
    if isinstance(kernel, (Sum, Product)):
        return type(kernel)(tuple(with_warping(part, p) for part in kernel.parts))
    return kernel.with_warping(p) if isinstance(kernel, Laplace) else kernel


@dataclass(eq=False)
class HeldOut:
    """Rows for two-fold cross-validation; every contiguous range is a representative sample."""

    X: Floats  # (n, p)
    target: Any  # (n,)
    weights: Doubles  # (n,)
    n_active: int  # maximum number of active rows, which are spread evenly over the rows
    piece: int = PIECE  # active rows whose gradients are computed at a time

    def __post_init__(self) -> None:
        n, m = len(self.X), min(len(self.X), self.n_active)
        self.active = np.arange(m) * n // m
        self.n_classes = max(int(self.target.max()) + 1, 2)  # a rare class may be left out
        self.halves = slice(0, -(-n // 2)), slice(-(-n // 2), n)
        self._former: dict[int, Floats] = {}

    def value_and_gradient(self, kernel: Kernel) -> tuple[float, Doubles]:
        """Return the held-out log probability of all rows, and its gradient, (q,).

        The gradient is with respect to the log parameters of the kernel.
        """
        X, U = self.X, self.X[self.active]
        own = np.asarray(kernel(U.astype(np.float64), U.astype(np.float64)), np.float64)
        factor, _ = linalg.jittered_cholesky(own, "the kernel of active rows", least=JITTER)
        features, pulls_back = np.empty((len(U), len(X)), X.dtype), []
        pieces = [slice(first, first + self.piece) for first in range(0, len(U), self.piece)]
        for piece in pieces:
            features[piece], pull_back = kernel.with_pull_back(U[piece], X)
            pulls_back.append(pull_back)
        features = linalg.solve_lower_in_place(factor, features)
        total, own = 0.0, np.zeros_like(factor, X.dtype)
        of_active: list[list[Floats]] = [[], []]
        of_rows: list[list[Floats]] = [[], []]
        for half, others in enumerate(self.halves):
            held = self.halves[1 - half]
            fit, rows = self._fit(half, features[:, others]), self._rows(held, features[:, held])
            log_p, gradient = rows.held_out_log_p_and_gradient(rows.latent(fit.point))
            slope = rows.weighted(gradient)
            adjoint = fit.solve(rows.coefficient_gradient(slope))
            total += float(rows.weighted(log_p).sum(dtype=np.float64))
            total += float(np.vdot(adjoint, fit.gradient))
            of_fit = linalg.solve_lower(factor, np.hstack([fit.point, adjoint]), transposed=True)
            a, b = np.hsplit(of_fit.astype(X.dtype), 2)
            of_active[half] += [b, a]
            of_rows[half] += [fit.slope, -fit.decrease(adjoint)]
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
        """Fit one half of the rows, starting from the latent values of the last fit to it."""
        rows = self._rows(self.halves[half], features)
        zero = np.zeros((features.shape[1], rows.n_latent), features.dtype)
        fit = Fit(rows, self._former.get(half, zero))
        self._former[half] = fit.latent
        return fit

    def _rows(self, rows: slice, features: Floats) -> SoftmaxRows:
        return make_rows(features, self.target[rows], self.n_classes, self.weights[rows])


class Fit:
    """Coefficients c close to the maximum of the log likelihood minus |c|^2 / 2.

    The ascent begins with a Newton step from the latent values (n, K) of an earlier fit. Its metric
    is the curvature there, averaged over classes as if they were independent: I + F W F^T with row
    curvatures W.
    """

    def __init__(self, rows: SoftmaxRows, start: Floats) -> None:
        self.rows = rows
        gradient = rows.log_p_and_gradient(start)[1]
        curvature = rows.curvature(rows.probability(gradient))
        scaled = drop_tiny(rows.features * np.sqrt(rows.weighted(curvature)))
        metric = (scaled @ scaled.T).astype(np.float64)
        metric[np.diag_indices_from(metric)] += 1.0
        factor = linalg.lower_cholesky(metric, "the curvature of a small fit", in_place=True)
        self.precondition = partial(linalg.solve_factored, factor)  # for (m, K)
        newton = rows.weighted(curvature[:, np.newaxis] * start + gradient)

        def function(c: Doubles) -> tuple[float, Doubles]:
            return rows.value_and_gradient(c, c)

        ascent = Ascent.at(self.precondition(rows.coefficient_gradient(newton)), function)
        rows.maximise(ascent, function, self.precondition, FIT_TOLERANCE)
        self.point, self.gradient = ascent.point, ascent.gradient  # (m, K)
        self.latent = rows.latent(self.point)  # (n, K), like the slope and probabilities there
        gradient = rows.log_p_and_gradient(self.latent)[1]
        self.slope, self.probability = rows.weighted(gradient), rows.probability(gradient)

    def decrease(self, change: Doubles) -> Floats:
        """Return the decrease of `slope`, (n, K), to first order, for a change of `point`."""
        return self.rows.hessian_product(self.probability, self.rows.latent(change))

    def solve(self, right: Doubles) -> Doubles:
        """Return A^-1 right, (m, K), with A the negative Hessian, by conjugate gradients.

        Iterations end when the residual, in the norm of the inverse metric, has fallen to
        `CG_TOLERANCE` times its initial value, or after `MAX_CG_ITERATIONS`.
        """
        x, residual = np.zeros_like(right), right.copy()
        scaled = self.precondition(residual)
        direction, size = scaled, float(np.vdot(residual, scaled))
        tolerance = CG_TOLERANCE**2 * size
        for _ in range(MAX_CG_ITERATIONS):
            if size <= tolerance:
                break
            image = self.rows.coefficient_gradient(self.decrease(direction)) + direction
            length = size / float(np.vdot(direction, image))
            x += length * direction
            residual -= length * image
            scaled = self.precondition(residual)
            former, size = size, float(np.vdot(residual, scaled))
            direction = scaled + (size / former) * direction
        return x
