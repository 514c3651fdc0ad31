"""Gaussian sites that match one softmax term under a Gaussian of correlated latent values.

The softmax knows of R latent values u only their differences: with the label y, a term is a
function of z_k = u_k - u_y, k other than y. So its moments are integrals over d = R - 1 dimensions.
With z = B' u the site exp(h' z - z' P z / 2) has in u the precision B P B' and the shift B h. This
is exact, and takes one dimension off the product rule of Cseke & Csato (2005, section 3.2; CC
below). As all roots are symmetric, what comes out does not depend on the order of the classes.

The nodes of the paper lie about the cavity's mean and would miss a term that is narrow or far away.
Here they are placed about the mode of the tilted density, by its curvature there, and then
`PLACINGS` times about the mean and by the covariance that they have found: a term that cuts off a
part of a wide cavity has its mode at the cut, and a curvature that tells little of the rest. With 7
nodes log Z and moments of three classes are mostly right to 1e-4 under a cavity of scale 1 and to
2e-2 under one of scale 3; the nodes that are needed grow with the scale.
"""

from dataclasses import dataclass

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.math.gaussian_quadrature import product_rule
from sparsegp.types import Doubles, Floats, Integers

NEWTON_STEPS = 100
HALVINGS = 24
SETTLED = 1e-7
"""Step, in units of the cavity's scale, that is the last one: it leaves an error of its square."""
PLACINGS = 3
MAX_POINTS = 20_000
"""Points a row that are taken to be bearable: 7 nodes for up to 6 classes."""
CHUNK = 1 << 18
"""Numbers in a temporary array."""


@dataclass(frozen=True)
class Matched:
    """What makes sites of terms.

    Attributes
    ----------
    log_z : Doubles (n,)
        Log expectation of the term under the cavity.
    precision : Doubles (n, d, d)
        P of the site that leads from the cavity to the tilted moments; positive semidefinite.
    shift : Doubles (n, d)
        h of that site.
    """

    log_z: Doubles
    precision: Doubles
    shift: Doubles


@dataclass(frozen=True)
class Rule:
    """How sites are found.

    Parameters
    ----------
    moments : str
        ``quadrature`` or ``laplace``.
    n_nodes : int
        Of the product rule, along each of the R - 1 dimensions.

    Raises
    ------
    SettingsError
        If one is out of range.
    """

    moments: str
    n_nodes: int

    def __post_init__(self) -> None:
        if self.moments not in {"quadrature", "laplace"}:
            raise SettingsError(f"moments must be quadrature or laplace, got {self.moments!r}")
        if self.n_nodes < 3:
            raise SettingsError(f"n_nodes must be at least 3, got {self.n_nodes}")

    def points(self, n_latent: int) -> int:
        """Return the points a row.

        Raises
        ------
        SettingsError
            If these are too many.
        """
        points = 1 if self.moments == "laplace" else int(self.n_nodes ** (n_latent - 1))
        if points > MAX_POINTS:
            raise SettingsError(
                f"moments='quadrature' needs {self.n_nodes}^{n_latent - 1} = {points} points a row "
                f"for {n_latent} classes, more than {MAX_POINTS}; use moments='laplace' or fewer "
                "n_nodes"
            )
        return points

    def __call__(
        self, mean: Doubles, covariance: Doubles, target: Integers, biases: tuple[float, ...]
    ) -> Matched:
        """Return sites under cavities of z; see `by_laplace`. No biases are as if all were zero.

        Raises
        ------
        LinAlgError
            If a covariance is not positive definite.
        """
        every = np.array(biases) if biases else np.zeros(mean.shape[1] + 1)
        if self.moments == "laplace":
            return by_laplace(mean, covariance, target, every)
        return by_quadrature(mean, covariance, target, every, self.n_nodes)


@dataclass(frozen=True)
class Terms:
    """Softmax terms in whitened coordinates x, under N(x | 0, I): u = base + slope x.

    Attributes
    ----------
    base : Doubles (n, R)
    slope : Doubles (n, R, d)
    target : Integers (n,)
    """

    base: Doubles
    slope: Doubles
    target: Integers

    @classmethod
    def under(cls, mean: Doubles, root: Doubles, target: Integers, biases: Doubles) -> "Terms":
        """Return those for z = mean + root x, (n, d) and (n, d, d)."""
        others = contrasts(target, len(biases)).clip(min=0.0)  # u - u_y from z
        return cls(np.einsum("nrd,nd->nr", others, mean) + biases, others @ root, target)

    def __getitem__(self, rows: Integers | slice) -> "Terms":
        return Terms(self.base[rows], self.slope[rows], self.target[rows])

    def log_p(self, x: Doubles) -> Doubles:
        """Return the log probabilities of all classes, (n, q, R), at x (n, q, d)."""
        u = self.base[:, np.newaxis] + x @ self.slope.swapaxes(1, 2)
        top = u.max(axis=-1, keepdims=True)
        return np.asarray(u - top - np.log(np.exp(u - top).sum(axis=-1, keepdims=True)))

    def own(self, log_p: Doubles) -> Doubles:
        """Return those of the labels, (n, q)."""
        index = self.target[:, np.newaxis, np.newaxis]
        return np.take_along_axis(log_p, index, axis=-1)[..., 0]

    def pull(self, p: Doubles) -> Doubles:
        """Return e_y - p, (n, R)."""
        pull = -p
        pull[np.arange(len(p)), self.target] += 1.0
        return pull

    def bend(self, p: Doubles) -> Doubles:
        """Return slope' (diag(p) - p p') slope, (n, d, d); centred, which loses no digits."""
        centred = self.slope - np.einsum("nr,nrd->nd", p, self.slope)[:, np.newaxis]
        return np.asarray((centred * p[..., np.newaxis]).swapaxes(1, 2) @ centred)


def contrasts(target: Integers, n_latent: int) -> Doubles:
    """Return B of every row, (n, R, R - 1): 1 for class k and -1 for the label, k in order."""
    every, others = np.arange(n_latent), np.arange(n_latent - 1)
    others = others + (others >= target[:, np.newaxis])
    own = every == target[:, np.newaxis]
    return np.where(own[..., np.newaxis], -1.0, every[:, np.newaxis] == others[:, np.newaxis])


def by_laplace(mean: Doubles, covariance: Doubles, target: Integers, biases: Doubles) -> Matched:
    """Return the sites of the expansion about the modes of the tilted densities (CC section 3.2).

    Parameters
    ----------
    mean : Doubles (n, d)
        Of z under the cavity.
    covariance : Doubles (n, d, d)
    target : Integers (n,)
    biases : Doubles (R,)
    """
    root = _root(covariance)
    terms = Terms.under(mean, root, target, biases)
    x, log_p = _mode(terms)
    p = np.exp(log_p)
    fall = np.linalg.slogdet(np.eye(x.shape[1]) + terms.bend(p))[1] + np.square(x).sum(axis=1)
    log_z = terms.own(log_p[:, np.newaxis])[:, 0] - 0.5 * fall

    plain = Terms.under(mean, np.eye(x.shape[1]), target, biases)
    precision = plain.bend(p)
    z = mean + np.einsum("nij,nj->ni", root, x)
    slope = np.einsum("nrd,nr->nd", plain.slope, terms.pull(p))
    shift = np.einsum("nij,nj->ni", precision, z) + slope
    return Matched(log_z, precision, shift)


def by_quadrature(
    mean: Doubles, covariance: Doubles, target: Integers, biases: Doubles, n_nodes: int
) -> Matched:
    """Return the sites of the first two tilted moments, by a product rule of n_nodes^d points.

    Parameters are those of `by_laplace`.
    """
    points, log_weights = product_rule(n_nodes, mean.shape[1])
    root = _root(covariance)
    terms = Terms.under(mean, root, target, biases)
    mode, log_p = _mode(terms)
    bent = np.eye(mean.shape[1]) + terms.bend(np.exp(log_p))
    sharp = np.asarray(np.linalg.inv(bent), np.float64)
    log_weights = log_weights + 0.5 * np.square(points).sum(axis=1)
    size = max(1, CHUNK // (len(points) * biases.size))
    pieces = [slice(start, start + size) for start in range(0, len(mean), size)]
    found = [_tilted(terms[rows], mode[rows], sharp[rows], points, log_weights) for rows in pieces]
    log_z, shift, site = (np.concatenate(parts) for parts in zip(*found, strict=True))

    # in x, under N(x | 0, I), the site has the precision P and the shift (I + P) E[x]
    down = np.linalg.inv(root)
    shift = np.einsum("nij,nj->ni", down, shift + np.einsum("nij,nj->ni", site, shift))
    precision = down @ site @ down
    precision = 0.5 * (precision + precision.swapaxes(1, 2))
    shift = shift + np.einsum("nij,nj->ni", precision, mean)
    return Matched(log_z, precision, shift)


def _tilted(
    terms: Terms, centre: Doubles, variance: Doubles, points: Doubles, log_weights: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Return log Z (n,), E[x] (n, d), and P in x (n, d, d); nodes are first placed as told.

    By integration by parts both moments follow from E[p] and Cov[p, x] as well; under wide cavities
    that multiplies the error of the rule by their scale.
    """
    for _ in range(PLACINGS + 1):
        x, log_z, weight = _rule(terms, centre, variance, points, log_weights)
        centre = (weight * x).sum(axis=1)
        x = x - centre[:, np.newaxis]
        variance = (weight * x).swapaxes(1, 2) @ x
    values, vectors = np.linalg.eigh(variance)
    # the term is log-concave and makes no variance larger: what is above one is error of the rule
    gain = 1.0 / np.minimum(values, 1.0) - 1.0
    return log_z, centre, vectors * gain[:, np.newaxis] @ vectors.swapaxes(1, 2)


def _rule(
    terms: Terms, centre: Doubles, variance: Doubles, points: Doubles, log_weights: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Return nodes x (n, q, d), log Z (n,), and weights (n, q, 1) that sum to one."""
    root = _root(variance)
    x = centre[:, np.newaxis] + points @ root
    log_terms = terms.own(terms.log_p(x)) + log_weights - 0.5 * np.square(x).sum(axis=-1)
    top = log_terms.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(log_terms - top).sum(axis=1))
    weight = np.exp(log_terms - log_sum[:, np.newaxis])[..., np.newaxis]
    return x, log_sum + np.linalg.slogdet(root)[1], weight


def _mode(terms: Terms) -> tuple[Doubles, Doubles]:
    """Return modes of the tilted densities, (n, d), and the log probabilities there, (n, R).

    By Newton's method: of the steps 1, 1/2, 1/4, ... each row takes the one that leads highest.
    """
    n, _, d = terms.slope.shape
    x, rows = np.zeros((n, d)), np.arange(n)
    lengths = 0.5 ** np.arange(HALVINGS)[:, np.newaxis]
    for _ in range(NEWTON_STEPS):
        if not rows.size:
            break
        some, here = terms[rows], x[rows]
        p = np.exp(some.log_p(here[:, np.newaxis])[:, 0])
        gradient = np.einsum("nrd,nr->nd", some.slope, some.pull(p)) - here
        step = np.linalg.solve(np.eye(d) + some.bend(p), gradient[..., np.newaxis])[..., 0]
        ahead = here[:, np.newaxis] + lengths * step[:, np.newaxis]
        height: Floats = some.own(some.log_p(ahead)) - 0.5 * np.square(ahead).sum(axis=-1)
        settled = np.abs(step).max(axis=1) <= SETTLED
        best = np.where(settled, 0, height.argmax(axis=1))  # else rounding decides at the end
        x[rows] = ahead[np.arange(len(rows)), best]
        rows = rows[~settled]
    return x, terms.log_p(x[:, np.newaxis])[:, 0]


def _root(matrix: Doubles) -> Doubles:
    """Return the symmetric root of positive definite matrices, (n, d, d).

    Raises
    ------
    LinAlgError
        If one is not.
    """
    values, vectors = np.linalg.eigh(matrix)
    if not (values > 0.0).all():
        raise np.linalg.LinAlgError
    return np.asarray(vectors * np.sqrt(values)[:, np.newaxis] @ vectors.swapaxes(1, 2))
