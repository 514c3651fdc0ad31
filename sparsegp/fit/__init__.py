"""Fitting, from data to model.

`api.train` is the one call. `training.Training` is a sparse fit stage by stage,
`dense.DenseRun` one of a dense method; both are a `run.Run`. `tune.tune` makes many small
ones to choose the kernel.
"""

from sparsegp.fit.api import train as train
from sparsegp.fit.prepare import Prepared as Prepared
from sparsegp.fit.prepare import prepare as prepare
from sparsegp.fit.training import Training as Training
