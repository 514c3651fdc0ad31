"""Dense O(n^3) methods, for small data and as references for the sparse approximations.

To add a method, write one file with a subclass of `Method` and import it here.
"""

from sparsegp.dense.base import METHODS as METHODS
from sparsegp.dense.base import Fit as Fit
from sparsegp.dense.base import Method as Method
from sparsegp.dense.base import Problem as Problem
from sparsegp.dense.base import Session as Session
from sparsegp.dense.base import Status as Status
from sparsegp.dense.base import likelihood_for as likelihood_for
from sparsegp.dense.base import parse_method as parse_method
from sparsegp.dense.ep import EP as EP
from sparsegp.dense.ep import SoftmaxEP as SoftmaxEP
from sparsegp.dense.exact import Exact as Exact
from sparsegp.dense.gibbs import Gibbs as Gibbs
from sparsegp.dense.laplace import Laplace as Laplace
from sparsegp.dense.learning import infer as infer
from sparsegp.dense.mixture import Component as Component
from sparsegp.dense.mixture import Mixture as Mixture
from sparsegp.dense.online import Online as Online
from sparsegp.dense.variational import Variational as Variational
