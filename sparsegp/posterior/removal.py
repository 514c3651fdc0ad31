"""Which active rows could go: the criterion of inclusion, in reverse.

On the active rows Pi^(-1) + C = L L^T, with inverse Q. Given all others, the site of row i has the
variance 1 / Q_ii, of which 1 / pi_i is its own noise. So what the row adds to the others is

    1/2 log(pi_i / Q_ii)     nats

summed over the processes: the information gain (SLH eq. 3) of including it last. Without row i the
inverse of the rest is Q - q_i q_i^T / Q_ii (Rasmussen & Williams 2006, section 5.4.2).
"""

import numpy as np
from scipy.linalg import cho_solve

from sparsegp.posterior.base import ActiveRows
from sparsegp.types import Doubles, Integers


def least_informative(active: ActiveRows, count: int) -> Integers:
    """Return the places of rows to remove, one by one the least informative that is left.

    Parameters
    ----------
    active : ActiveRows
        Every row active for every process.
    count : int

    Returns
    -------
    Integers (count,)
        In order of removal; of equals the later inclusion goes first.
    """
    inverse = [cho_solve((factor, True), np.eye(len(factor))) for factor in active.factors()]
    kept, removed = np.ones(len(active.x), dtype=bool), []
    for _ in range(count):
        gains = leave_one_out_gains(active, inverse)
        place = len(kept) - 1 - int(np.where(kept, gains, np.inf)[::-1].argmin())
        kept[place] = False
        removed.append(place)
        for Q in inverse:
            np.subtract(Q, np.outer(Q[place] / Q[place, place], Q[place]), out=Q)
            Q[place, place] = 1.0  # is not looked at again
    return np.array(removed, dtype=np.int64)


def leave_one_out_gains(active: ActiveRows, inverse: list[Doubles]) -> Doubles:
    """Return the information gain of each row given all others, (d,).

    Parameters
    ----------
    active : ActiveRows
    inverse : list of Doubles (d, d)
        Q of each process.
    """
    gains = np.zeros(len(active.x))
    for Q, precision in zip(inverse, active.precision.T, strict=True):
        gains += 0.5 * np.log(precision / Q.diagonal())
    return gains
