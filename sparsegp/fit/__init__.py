"""Fitting, from data to model.

`api.train` is the one call; `training.Training` is a sparse fit stage by stage, `dense.DenseRun`
one of a dense method. Both are a `run.Run`.
"""

from sparsegp.fit.api import train as train
from sparsegp.fit.prepare import Prepared as Prepared
from sparsegp.fit.prepare import prepare as prepare
from sparsegp.fit.training import Training as Training
