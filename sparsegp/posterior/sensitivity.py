"""Held-out probability of the all-data posterior, and its gradient in the kernel's parameters.

For small problems: dense, in float64, one kernel for all classes. The active rows U, (d, p), stay
where they are. With latent means m = K_nu a and coefficients a (d, K), the posterior maximises

    F(a, t) = sum_n log Z_n(m_n) - tr(a^T K_uu a) / 2,    G(a, t) = dF/da = K_un p(m) - K_uu a

over a, for log kernel parameters t; p is the gradient of log Z, and W_n = -d2 log Z_n / dm dm^T.
Rows that were left out of F are judged at the temperature T by

    J(t, T) = sum_h log Z_h(m_h / T),    m_h = k_hu a*(t)

Differentiating G(a*(t), t) = 0 gives H da* = dG with H = -d2F/da2 = K_un W K_nu + K_uu (x) I.
With P_h = p(m_h / T) / T and the adjoint variable b (d, K), which solves H b = dJ/da = K_uh P,

    dJ = tr(P^T dK_hu a) + tr(b^T dG)
    dG = dK_un p - K_un W dK_nu a - dK_uu a          (W acts on the K values of a row)

so J has the gradients P a^T with respect to K_hu, p b^T - (W K_nu b) a^T with respect to K_nu, and
-b a^T with respect to K_uu: matrices of the size of the kernel matrices, which `Kernel.pull_back`
turns into dJ/dt.

As in posterior/all_data.py, the coefficients in use are c = L^T a with I + K_uu = L L^T: then
m = M^T c with the stub M = L^-1 K_un, and the penalty matrix is I - L^-1 L^-T.

Several folds share the features: each of them is left out once, and judged by the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from sparsegp.errors import NumericalError
from sparsegp.kernels import Kernel
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.math.linalg import jittered_cholesky, lower_cholesky, solve_lower
from sparsegp.posterior.base import prior_penalty
from sparsegp.types import Doubles, Integers

MOST_NEWTON_STEPS = 50
MOST_PRODUCTS = 1000
ROUGH = 1e-3
"""Relative residual of a Newton step: fewer products a step, one more step."""
SUFFICIENT = 1e-4
SHORTEST = 2.0**-30
ROUNDING = 1e-12
"""Relative size of what rounding leaves of sums over rows."""
BLOCK_JITTER = 1e-7
NEAR = 10.0
"""Nats that the last step promised, below which the factors of the blocks may stay."""


@dataclass(frozen=True)
class Features:
    """What a kernel makes of rows and active rows.

    Attributes
    ----------
    kernel : Kernel
    X : Doubles (n, p)
    U : Doubles (d, p)
        Active rows.
    """

    kernel: Kernel
    X: Doubles
    U: Doubles

    @cached_property
    def factor(self) -> Doubles:
        """L of I + K_uu = L L^T, (d, d)."""
        covariance = self.kernel(self.U, self.U) + np.eye(len(self.U))
        return lower_cholesky(covariance, "the covariance of the active rows")

    @cached_property
    def stub(self) -> Doubles:
        """M = L^-1 K_un, (d, n)."""
        return solve_lower(self.factor, np.asarray(self.kernel(self.U, self.X), np.float64))

    @cached_property
    def penalty(self) -> Doubles:
        """P = I - L^-1 L^-T, (d, d)."""
        return prior_penalty(self.factor)


@dataclass(frozen=True)
class System:
    """The matrix H = M W M^T + penalty (x) I at some means, to solve equations with.

    Conjugate gradients are preconditioned by the blocks of H on the diagonal, one a class: a dozen
    products where one metric for all classes takes ten times as many. All is done among matrices
    whose rows sum to zero over the classes, as those of W do; outside of them H is the penalty
    alone, which the blocks exceed by far.

    Parameters
    ----------
    stub : Doubles (d, m)
    curvature : Doubles (m, K, K)
        W.
    penalty : Doubles (d, d)
    factors : sequence of Doubles (d, d)
        Lower Cholesky factors of the blocks, or of those at means nearby.
    """

    stub: Doubles
    curvature: Doubles
    penalty: Doubles
    factors: Sequence[Doubles]

    @classmethod
    def at(cls, stub: Doubles, curvature: Doubles, penalty: Doubles) -> "System":
        """Return the system with its own factors."""
        weights = np.einsum("nkk->kn", curvature)
        blocks = ((stub * weight) @ stub.T + penalty for weight in weights)
        name = "a block of the curvature of the posterior"
        factors = [jittered_cholesky(block, name, BLOCK_JITTER)[0] for block in blocks]
        return cls(stub, curvature, penalty, factors)

    def bend(self, change: Doubles) -> Doubles:
        """Return W applied to changes of the means, (m, K)."""
        return np.asarray(np.einsum("njk,nk->nj", self.curvature, change))

    def solve(self, right: Doubles, relative: float, absolute: float = 0.0) -> Doubles:
        """Return H^-1 R for R (d, K) with rows that sum to zero.

        Parameters
        ----------
        right : Doubles (d, K)
        relative, absolute : float
            Norm of the residual, in terms of that of R and as it is; the larger of both will do.

        Raises
        ------
        NumericalError
            If the residual is not reached.
        """

        def multiply(flat: Doubles) -> Doubles:
            x = flat.reshape(right.shape)
            y = self.stub @ self.bend(self.stub.T @ x) + self.penalty @ x
            return y.ravel()

        def precondition(flat: Doubles) -> Doubles:
            x = _centred(flat.reshape(right.shape))
            columns = [cho_solve((r, True), x[:, k]) for k, r in enumerate(self.factors)]
            return _centred(np.stack(columns, axis=1)).ravel()

        shape = (right.size, right.size)
        found, failed = cg(
            LinearOperator(shape, matvec=multiply, dtype=np.float64),
            right.ravel(),
            rtol=relative,
            atol=absolute,
            maxiter=MOST_PRODUCTS,
            M=LinearOperator(shape, matvec=precondition, dtype=np.float64),
        )
        if failed:
            raise NumericalError(
                f"equations of the posterior must be solved to {relative:.0e}, but were not after "
                f"{MOST_PRODUCTS} products; use a kernel of smaller variance"
            )
        return _centred(found.reshape(right.shape))


def _centred(x: Doubles) -> Doubles:
    return np.asarray(x - x.mean(axis=1, keepdims=True))


@dataclass(frozen=True)
class Mode:
    """The posterior mode for some of the rows.

    Attributes
    ----------
    coefficients : Doubles (d, K)
        c.
    mean : Doubles (n, K)
        Latent means at all rows of the features.
    slope : Doubles (m, K)
        p at the rows that count.
    system : System
        H where the last step started, which is the mode to the square root of the precision.
    """

    coefficients: Doubles
    mean: Doubles
    slope: Doubles
    system: System


def find_mode(
    features: Features,
    rows: Integers,
    target: Integers,
    likelihood: MultinomialProbit,
    start: Doubles,
    precision: float,
) -> Mode:
    """Return the posterior mode by Newton's method with conjugate gradients.

    Parameters
    ----------
    features : Features
    rows : Integers (m,)
        The rows that count.
    target : Integers (n,)
        Class codes of all rows.
    likelihood : MultinomialProbit
    start : Doubles (d, K)
        Coefficients c near the solution; zero will do. Their rows sum to zero.
    precision : float
        Nats; a step that promises to gain no more is the last. Convergence is quadratic: that step
        leaves a millionth of it.

    Raises
    ------
    NumericalError
        If the mode is not found.
    """
    stub, penalty, own = features.stub[:, rows], features.penalty, target[rows]
    zero = np.zeros((len(rows), 1))
    c, mean = start, stub.T @ start
    log_z, slope = likelihood.gradient(mean, zero, own)
    system = System.at(stub, likelihood.curvature(mean, own), penalty)
    for _ in range(MOST_NEWTON_STEPS):
        pull = stub @ slope
        gradient = pull - penalty @ c
        step = system.solve(gradient, ROUGH, ROUNDING * float(np.linalg.norm(pull)))
        promise = float(np.vdot(gradient, step))
        value, change, length = _value(log_z, c, penalty), stub.T @ step, 1.0
        while length >= SHORTEST:
            log_z, slope = likelihood.gradient(mean + length * change, zero, own)
            new = _value(log_z, c + length * step, penalty)
            if new >= value + SUFFICIENT * length * promise - ROUNDING * abs(value):
                break
            length /= 2.0
        c, mean = c + length * step, mean + length * change
        if promise <= precision:
            return Mode(c, features.stub.T @ c, slope, system)
        curvature = likelihood.curvature(mean, own)
        if promise <= NEAR:
            system = replace(system, curvature=curvature)
        else:
            system = System.at(stub, curvature, penalty)
    raise NumericalError(
        f"the posterior mode must be found to {precision:.0e} nats, but the last of "
        f"{MOST_NEWTON_STEPS} steps promised {promise:.1e}; use a kernel of smaller variance"
    )


def _value(log_z: Doubles, c: Doubles, penalty: Doubles) -> float:
    return float(log_z.sum() - np.vdot(c, penalty @ c) / 2.0)


@dataclass(frozen=True)
class HeldOut:
    """Probability of rows that were left out, and how it changes.

    Attributes
    ----------
    value : float
        J, the sum over all folds.
    gradient : Doubles (q,)
        dJ/dt.
    coefficients : sequence of Doubles (d, K)
        c of each fold's posterior, to start from next time.
    """

    value: float
    gradient: Doubles
    coefficients: Sequence[Doubles]


@dataclass(frozen=True)
class CrossFit:
    """Rows in folds, each judged by the posterior of the others.

    Parameters
    ----------
    X : Doubles (n, p)
    target : Integers (n,)
        Class codes.
    n_classes : int
    fold : Integers (n,)
        Fold of each row, from 0 on.
    U : Doubles (d, p)
        Active rows.
    likelihood : MultinomialProbit
    precision : float
        Of the posterior modes (`find_mode`), in nats.
    residual : float
        Of the adjoint variable, relative.
    """

    X: Doubles
    target: Integers
    n_classes: int
    fold: Integers
    U: Doubles
    likelihood: MultinomialProbit
    precision: float = 1e-8
    residual: float = 1e-8

    def start(self) -> Sequence[Doubles]:
        """Return coefficients of zero for every fold."""
        return [np.zeros((len(self.U), self.n_classes))] * (int(self.fold.max()) + 1)

    def judge(self, kernel: Kernel, temperature: float, start: Sequence[Doubles]) -> HeldOut:
        """Return J and its gradient, from coefficients near the solution.

        With a precision of 1e-13 and a residual of 1e-11 the gradient agrees with differences of J
        to 1e-7; as they are left, to 1e-4, which is enough to climb.

        Raises
        ------
        NumericalError
            If the posterior is not found.
        """
        features = Features(kernel, self.X, self.U)
        value, coefficients = 0.0, []
        cross = np.zeros((len(self.X), len(self.U)))
        square = np.zeros((len(self.U), len(self.U)))
        for number, near in enumerate(start):
            rows, out = np.flatnonzero(self.fold != number), np.flatnonzero(self.fold == number)
            mode = find_mode(features, rows, self.target, self.likelihood, near, self.precision)
            coefficients.append(mode.coefficients)
            log_z, pull = self.likelihood.gradient(
                mode.mean[out] / temperature, np.zeros((len(out), 1)), self.target[out]
            )
            pull /= temperature
            value += float(log_z.sum())
            c, system = mode.coefficients, mode.system
            adjoint = system.solve(features.stub[:, out] @ pull, self.residual)
            bent = system.bend(system.stub.T @ adjoint)
            a, b = (solve_lower(features.factor, x, transposed=True) for x in (c, adjoint))
            cross[out] += pull @ a.T
            cross[rows] += mode.slope @ b.T - bent @ a.T
            square -= b @ a.T
        gradient = kernel.pull_back(self.X, self.U, cross)
        gradient += kernel.pull_back(self.U, self.U, square)
        return HeldOut(value, gradient, coefficients)
