"""How cells are run: one file and one entry for each kind of pipeline."""

from sparsegp.reproduce.kinds.annealed import Annealed as Annealed
from sparsegp.reproduce.kinds.base import KINDS as KINDS
from sparsegp.reproduce.kinds.base import Bench as Bench
from sparsegp.reproduce.kinds.base import Kind as Kind
from sparsegp.reproduce.kinds.base import Result as Result
from sparsegp.reproduce.kinds.benchmark import Benchmark as Benchmark
from sparsegp.reproduce.kinds.grid import Grid as Grid
from sparsegp.reproduce.kinds.reject import Reject as Reject
from sparsegp.reproduce.kinds.response import Response as Response
from sparsegp.reproduce.kinds.rounds import Rounds as Rounds
from sparsegp.reproduce.kinds.same_kernel import SameKernel as SameKernel
from sparsegp.reproduce.kinds.scale import Scale as Scale
from sparsegp.reproduce.kinds.selection_work import SelectionWork as SelectionWork
from sparsegp.reproduce.kinds.train import Train as Train
from sparsegp.reproduce.kinds.virtual import Virtual as Virtual
