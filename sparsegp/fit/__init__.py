"""Fitting, from data to model.

`api.train` is the main function. `training.Training` is a sparse fit stage by stage,
`dense.DenseRun` a fit by a dense method; both are a `run.Run`. `tune.tune` runs many small fits to
choose the kernel.
"""

from sparsegp.fit.api import train as train
from sparsegp.fit.prepare import prepare as prepare
from sparsegp.fit.training import Training as Training
