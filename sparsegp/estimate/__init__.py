"""What a run will take, told before it begins."""

from sparsegp.estimate.dense import DenseEstimate as DenseEstimate
from sparsegp.estimate.dense import estimate_dense as estimate_dense
from sparsegp.estimate.fit import Places as Places
from sparsegp.estimate.fit import advice as advice
from sparsegp.estimate.fit import remedies as remedies
from sparsegp.estimate.fit import require_room as require_room
from sparsegp.estimate.sparse import Estimate as Estimate
from sparsegp.estimate.sparse import estimate as estimate
from sparsegp.estimate.sparse import most_active as most_active
