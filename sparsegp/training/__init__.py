"""Training from data to model."""

from sparsegp.training.api import train as train
from sparsegp.training.prepare import Prepared as Prepared
from sparsegp.training.prepare import prepare as prepare
from sparsegp.training.progress import Progress as Progress
from sparsegp.training.progress import Quiet as Quiet
from sparsegp.training.run import Training as Training
