"""Fitting, from data to model.

`training.train` is the one call. `training.Training` is a sparse fit stage by stage,
`dense.DenseRun` one of a dense method; both are a `run.Run`. `tune.tune` makes many small ones.
"""

from sparsegp.fit.prepare import Prepared as Prepared
from sparsegp.fit.prepare import prepare as prepare
from sparsegp.fit.training import Training as Training
from sparsegp.fit.training import train as train
