"""Covariance functions, and how they are written as text.

To add a kernel, write one file with a frozen dataclass ``class Mine(Kernel, name="mine")`` whose
fields are its parameters and which defines the abstract methods of `Kernel`, import it here, and
add an instance with a second formula to the contract in ``tests/kernels/test_contract.py``. The
name is then known to `parse`, the command line and the stores.
"""

from sparsegp.kernels.absolute import SEGMENTS, Additive, Laplace, Power
from sparsegp.kernels.algebra import Constant, Product, Sum
from sparsegp.kernels.base import KERNELS, Kernel
from sparsegp.kernels.columns import ARD, ByColumn, relevances
from sparsegp.kernels.linear import Linear
from sparsegp.kernels.pair import half_squared_norms
from sparsegp.kernels.parse import brief, parse, parse_many, six_digits
from sparsegp.kernels.stationary import RBF, Matern32, Matern52

__all__ = [
    "ARD",
    "KERNELS",
    "RBF",
    "SEGMENTS",
    "Additive",
    "ByColumn",
    "Constant",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern32",
    "Matern52",
    "Power",
    "Product",
    "Sum",
    "brief",
    "half_squared_norms",
    "parse",
    "parse_many",
    "relevances",
    "six_digits",
]
