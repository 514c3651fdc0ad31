"""Directories that are written whole or not at all."""

from sparsegp.checkpoint.generations import CHECKPOINT_KIND as CHECKPOINT_KIND
from sparsegp.checkpoint.generations import CHECKPOINT_VERSION as CHECKPOINT_VERSION
from sparsegp.checkpoint.generations import Generations as Generations
from sparsegp.checkpoint.generations import RunLock as RunLock
from sparsegp.checkpoint.schema import check_arrays as check_arrays
from sparsegp.checkpoint.schema import restoring as restoring
from sparsegp.checkpoint.store import Bundle as Bundle
from sparsegp.checkpoint.store import read_bundle as read_bundle
from sparsegp.checkpoint.store import remove_bundle as remove_bundle
from sparsegp.checkpoint.store import sweep_bundle as sweep_bundle
from sparsegp.checkpoint.store import write_bundle as write_bundle
