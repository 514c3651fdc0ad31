"""Posteriors over the span of the active rows, and predictions.

To add a posterior, write one file with a function decorated by `posterior` and import it here.
"""

from sparsegp.posterior.all_data import all_data as all_data
from sparsegp.posterior.base import POSTERIORS as POSTERIORS
from sparsegp.posterior.base import ActiveRows as ActiveRows
from sparsegp.posterior.base import Calibration as Calibration
from sparsegp.posterior.base import PosteriorWeights as PosteriorWeights
from sparsegp.posterior.predict import Posterior as Posterior
from sparsegp.posterior.sites import active_only as active_only
from sparsegp.posterior.sites import adf as adf
