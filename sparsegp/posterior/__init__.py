"""Posteriors over the span of the active rows, and predictions.

To add a posterior, write one file with a function that takes `ActiveRows` and `Rows` and returns
`PosteriorWeights`, and register it here.
"""

from collections.abc import Callable

from sparsegp.posterior.all_data import all_data
from sparsegp.posterior.base import ActiveRows as ActiveRows
from sparsegp.posterior.base import Calibration as Calibration
from sparsegp.posterior.base import PosteriorWeights as PosteriorWeights
from sparsegp.posterior.base import Rows
from sparsegp.posterior.predict import Posterior as Posterior
from sparsegp.posterior.sites import active_only, adf
from sparsegp.registry import Registry

POSTERIORS: Registry[Callable[[ActiveRows, Rows], PosteriorWeights]] = Registry("posterior")
POSTERIORS.update(adf=adf, active=active_only, all=all_data)
