"""Covariance functions, and how they are written as text.

To add a kernel, write one file with a frozen dataclass ``class Mine(Kernel, name="mine")`` whose
fields are its parameters and which defines the abstract methods of `Kernel`, import it here, and
add an instance with an independent formula to the contract in ``tests/kernels/test_contract.py``.
The name is then known to `parse`, the command line and the stores.
"""

from sparsegp.kernels.absolute import Additive as Additive
from sparsegp.kernels.absolute import Laplace as Laplace
from sparsegp.kernels.absolute import Power as Power
from sparsegp.kernels.algebra import Constant as Constant
from sparsegp.kernels.algebra import Product as Product
from sparsegp.kernels.algebra import Sum as Sum
from sparsegp.kernels.base import KERNELS as KERNELS
from sparsegp.kernels.base import Kernel as Kernel
from sparsegp.kernels.columns import ARD as ARD
from sparsegp.kernels.columns import ByColumn as ByColumn
from sparsegp.kernels.columns import ColumnNames as ColumnNames
from sparsegp.kernels.columns import relevances as relevances
from sparsegp.kernels.linear import Linear as Linear
from sparsegp.kernels.pair import half_squared_norms as half_squared_norms
from sparsegp.kernels.parse import brief as brief
from sparsegp.kernels.parse import parse as parse
from sparsegp.kernels.parse import parse_many as parse_many
from sparsegp.kernels.parse import six_digits as six_digits
from sparsegp.kernels.parse import split as split
from sparsegp.kernels.stationary import RBF as RBF
from sparsegp.kernels.stationary import Matern32 as Matern32
from sparsegp.kernels.stationary import Matern52 as Matern52
