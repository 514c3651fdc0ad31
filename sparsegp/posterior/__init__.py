"""Posteriors over the span of the active rows, and predictions.

To add a posterior, write one file with a function that takes `ActiveRows` and `Rows` and returns
`PosteriorWeights`, and register it here.
"""

from sparsegp.posterior.all_data import all_data
from sparsegp.posterior.base import ActiveRows as ActiveRows
from sparsegp.posterior.base import Calibration as Calibration
from sparsegp.posterior.base import Choice
from sparsegp.posterior.base import PosteriorWeights as PosteriorWeights
from sparsegp.posterior.predict import Posterior as Posterior
from sparsegp.posterior.sites import active_only, adf
from sparsegp.registry import Registry

POSTERIORS: Registry[Choice] = Registry("posterior")
POSTERIORS.register("adf")(Choice(adf))
POSTERIORS.register("active")(Choice(active_only))
POSTERIORS.register("all")(Choice(all_data, uses_all_rows=True))
