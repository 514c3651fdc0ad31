"""The all-data posterior for regression: penalised least squares in the span of the active rows.

In the notation of posterior/all_data.py, with Gaussian noise of variance sigma^2, targets y and
lambda = sigma^2 / s, the coefficients are

    c = A^-1 M W y        A = lambda P + G        G = M W M^T

so they depend only on the ratio of noise variance to prior variance factor. With G + P = R R^T
and R^-1 P R^-T = Q diag(e) Q^T, only a diagonal matrix must be inverted for each lambda,

    A = R Q diag(1 + (lambda - 1) e) Q^T R^T

The data reduce the prior variance s k** by s k^T (C + H)^-1 k, with

    H = lambda C (L G L^T)^-1 C = lambda V diag(e^2 / (1 - e)) V^T        V = L R Q

since C = L P L^T = V diag(e) V^T. The active rows are among the rows of G, so no term of H / lambda
exceeds the inverse of their smallest weight. If 1 - e is below the rounding error of G, it is
meaningless, and the term is set to that bound. This form avoids differences of large inverses. It
is kept in double precision, as no calibration reduces the variance of a regression.

Left-out rows choose lambda: with m a column of M, w its weight, q = m^T A^-1 m and h = w q, the fit
to all other rows has the residual (y - m^T c) / (1 - h) at this row, and the variance
sigma^2 (q / (1 - h) + t / lambda), where t = k** - m^T P^-1 m lies outside the span. The sigma^2 at
which the density of these rows is highest has a closed form for each lambda (Rasmussen & Williams
2006, section 5.4.2, for exact regression), and lambda is found by a line search.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, eigh
from scipy.optimize import minimize_scalar

from sparsegp.math.linalg import inverse_lower, jittered_cholesky, product_of_triangles, solve_lower
from sparsegp.math.products import TILE
from sparsegp.math.summation import quantum
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights, Rows
from sparsegp.posterior.objective import SAFE_VARIANCE_RANGE
from sparsegp.posterior.past import JITTER
from sparsegp.types import Doubles

EPS = float(np.finfo(np.float64).eps)
MAX_LEFT_OUT = 4000
"""Maximum number of left-out rows, which are evenly spaced."""
GRID = np.log(10.0) * np.arange(-8.0, 4.25, 0.5)
"""Values of log lambda that are tried before the best is refined."""
AS_GOOD = 0.001
"""Difference of mean log densities, in nats, within which a larger lambda is preferred: with a weak
prior, rounding errors matter, and predictions far from all rows are wild."""
ROUNDING = 1e-12
"""Minimum prior precision of coefficients in an update, relative to the mean diagonal of G.
Otherwise rounding errors would be fitted in directions that neither rows nor prior determine."""
MIN_LEFT_OUT = 300
"""Minimum number of new rows to choose noise and prior again in an update without the old rows."""
FEW_ROWS = 20
"""Few rows may all be predicted well by chance, so the noise variance is averaged with one more
row, whose squared error is the variance of the targets, and whose weight is 1 / n beside n rows;
beyond this number of rows its weight falls with the third power of n."""
MIN_NOISE = 1e-10
"""Minimum noise variance, for targets of variance one; without noise a fit loses all digits."""


def least_squares(active: ActiveRows, rows: Rows) -> PosteriorWeights:
    """Return the all-data posterior of a regression; choose noise and prior if `rows.calibrate`.

    The report contains `noise_variance`.
    """
    (factor,), past = active.factors(), rows.past
    variance = float(active.kernels[0].diag(np.asarray(active.x, np.float64)).mean())
    (penalty,) = active.penalties([factor], 0.0 if past is None else JITTER * variance)
    gram, pull, error = sums_of_rows(active, rows)
    scale, noise, nlpp = 1.0, _noise(active), None
    if past is not None:  # exact in the former span, as log Z is quadratic (posterior/past.py)
        scale, noise = past.weights.calibration.prior_scale, _noise(past.active)
        (more,), (force,) = past.projected_onto(active, [factor])
        gram, pull = gram + noise * more, pull + noise * force[:, 0]
        error += noise * float(np.finfo(np.float32).eps * more.trace())
        ridge = ROUNDING * float(gram.diagonal().mean()) * scale / noise
        penalty[np.diag_indices_from(penalty)] += ridge
    spectrum = Spectrum(penalty, gram, pull, error)
    if rows.calibrate and (past is None or rows.n_rows >= MIN_LEFT_OUT):
        left_out = LeftOut(active, rows, factor, spectrum)
        ratio, noise, nlpp = left_out.best()
        scale = noise / ratio
    B = penalty / scale + gram / noise
    metric, jitter = jittered_cholesky(B, "the metric of the all-data posterior")
    report = {"noise_variance": noise, "prior_scale": scale, "left_out_nlpp": nlpp}
    if past is None and len(active.x) == rows.n_rows:
        coefficients, reduction = _exact(active, factor, noise / scale)
    else:
        coefficients = spectrum.coefficients(noise / scale)
        reduction = _reduction(active, factor, spectrum, noise / scale)
    return PosteriorWeights(
        coefficients=[coefficients[:, np.newaxis]],
        gain=[metric.astype(np.float32).astype(np.float64)],
        reduction=[np.sqrt(scale) * reduction],
        calibration=Calibration(prior_scale=scale),
        report={**report, "jitter_of_metric": jitter},
    )


def _reduction(active: ActiveRows, factor: Doubles, spectrum: "Spectrum", ratio: float) -> Doubles:
    """Return W (d, d) of posterior/predict.py, divided by the square root of s."""
    x, most = np.asarray(active.x, np.float64), 1.0 / float(active.precision.min() * _noise(active))
    C = np.asarray(active.kernels[0](x, x), np.float64) + spectrum.beside(factor, ratio, most)
    return inverse_lower(jittered_cholesky(C, "the covariance of the active rows", len(x) * EPS)[0])


def _exact(active: ActiveRows, factor: Doubles, ratio: float) -> tuple[Doubles, Doubles]:
    """Return c (d,), and W (d, d) divided by the square root of s, if all rows are active.

    Then H = lambda diag(1 / weights) and c = L^T (C + H)^-1 y, without squaring features, which
    would lose half of the digits.
    """
    x, weights = np.asarray(active.x, np.float64), active.precision[:, 0] * _noise(active)
    C = np.asarray(active.kernels[0](x, x), np.float64) + np.diag(ratio / weights)
    root, _ = jittered_cholesky(C, "the covariance of the training rows")
    return factor.T @ cho_solve((root, True), active.target), inverse_lower(root)


def _noise(active: ActiveRows) -> float:
    """Return the noise variance: its value at inclusion, or the final one of a former posterior."""
    likelihood: Any = active.likelihood
    return float(likelihood.noise_variance)


def sums_of_rows(active: ActiveRows, rows: Rows) -> tuple[Doubles, Doubles, float]:
    """Return G (d, d) and M W y (d,), summed over row blocks, and a bound on the error of G."""
    d, noise = len(active.x), _noise(active)
    largest = float(active.kernels[0].diag(np.asarray(active.x, np.float64)).max())
    largest *= SAFE_VARIANCE_RANGE
    unit_of_gram = quantum(rows.total * largest)
    gram = rows.sum_blocks("gram", d, unit_of_gram)[0]
    unit = quantum(rows.total**1.5 * np.sqrt(largest) / noise)  # targets have variance one
    value = quantum(rows.total**2 / noise)
    answers = rows.map_blocks("slope", d, np.zeros((1, d, 1)), True, TILE, value, unit)
    pull = noise * np.sum([pull for _, pull, _ in answers], axis=0)[0, :, 0]
    return gram, pull, 0.5 * d * unit_of_gram


class Spectrum:
    """Factorisation that gives A^-1 for every lambda, from P, G and M W y.

    `error` bounds the errors of the eigenvalues of G.
    """

    def __init__(self, penalty: Doubles, gram: Doubles, pull: Doubles, error: float = 0.0) -> None:
        self.error = error
        self.root, _ = jittered_cholesky(penalty + gram, "the features of all rows")  # R
        half = solve_lower(self.root, penalty)
        self.shares, self.vectors = eigh(solve_lower(self.root, half.T))  # e and Q
        self.shares = np.clip(self.shares, 0.0, 1.0)
        self.pull = self.rotated(pull)

    def rotated(self, columns: Doubles) -> Doubles:
        """Return Q^T R^-1 times columns (d, ...)."""
        return np.asarray(self.vectors.T @ solve_lower(self.root, columns))

    def inverse(self, ratio: float) -> Doubles:
        """Return the diagonal (d,) to which `rotated` reduces A^-1, for lambda = `ratio`."""
        return np.asarray(1.0 / (1.0 - self.shares + ratio * self.shares))

    def coefficients(self, ratio: float) -> Doubles:
        """Return c, (d,), for lambda = `ratio`."""
        rotated = self.vectors @ (self.inverse(ratio) * self.pull)
        return solve_lower(self.root, rotated, transposed=True)

    def beside(self, factor: Doubles, ratio: float, most: float) -> Doubles:
        """Return H, (d, d), from L (d, d), lambda and an upper bound on the terms of H / lambda."""
        V = product_of_triangles(factor, self.root) @ self.vectors
        squares, rest = np.square(V).sum(axis=0), 1.0 - self.shares
        lost = self.error * np.square(self.vectors.T @ inverse_lower(self.root)).sum(axis=1)
        size = np.minimum(self.shares**2 * squares / np.maximum(rest, EPS), most)
        size[rest < lost] = most
        V *= np.sqrt(ratio * size / squares)
        return V @ V.T


class LeftOut:
    """Left-out rows, by which the noise variance and prior variance factor are chosen.

    They are evenly spaced, and at most `MAX_LEFT_OUT`; `factor` is L.
    """

    def __init__(self, active: ActiveRows, rows: Rows, factor: Doubles, spectrum: Spectrum) -> None:
        m = min(rows.n_rows, MAX_LEFT_OUT)
        drawn = np.arange(m) * rows.n_rows // m
        inputs, targets = zip(*rows.map_blocks("labelled_rows", drawn), strict=True)
        x, own = (np.asarray(each, np.float64) for each in (np.concatenate(inputs), active.x))
        kernel = active.kernels[0]
        cross = np.asarray(kernel(own, x), np.float64)
        prior, _ = jittered_cholesky(np.asarray(kernel(own, own), np.float64), "the covariance")
        inside = np.square(solve_lower(prior, cross)).sum(axis=0)
        self.spectrum, self.target = spectrum, np.concatenate(targets)
        self.features = spectrum.rotated(solve_lower(factor, cross))  # Q^T R^-1 M (d, m)
        self.squares = self.features**2
        self.outside = np.maximum(kernel.diag(x) - inside, 0.0)  # t (m,)
        self.weights = np.ones(m) if rows.weights is None else rows.weights[drawn]

    def negative_log_density(self, log_ratio: float) -> tuple[float, float]:
        """Return the mean negative log density at a log lambda, and the best noise variance."""
        ratio = float(np.exp(log_ratio))
        inverse = self.spectrum.inverse(ratio)
        rest = self.target - (inverse * self.spectrum.pull) @ self.features
        q = inverse @ self.squares
        left = np.maximum(1.0 - self.weights * q, 1e-10)
        spread = 1.0 + q / left + self.outside / ratio
        square = (rest / left) ** 2 / spread
        noise = max(float(np.average(square, weights=self.weights)), MIN_NOISE)
        n = len(square)
        more = (min(1.0, FEW_ROWS / n) / n) ** 2  # weight of one more row relative to all others
        noise = (noise + more) / (1.0 + more)
        terms = np.log(2.0 * np.pi * noise * spread) + square / noise
        return 0.5 * float(np.average(terms, weights=self.weights)), noise

    def best(self) -> tuple[float, float, float]:
        """Return the best lambda, its noise variance and its mean negative log density."""
        tried = np.array([self.negative_log_density(each)[0] for each in GRID])
        near = GRID[np.flatnonzero(tried <= tried.min() + AS_GOOD)[-1]]
        step = GRID[1] - GRID[0]
        found = minimize_scalar(
            lambda each: self.negative_log_density(each)[0],
            bounds=(near - step, near + step),
            method="bounded",
            options={"xatol": 0.01},
        )
        nlpp, noise = self.negative_log_density(float(found.x))
        return float(np.exp(found.x)), noise, nlpp
