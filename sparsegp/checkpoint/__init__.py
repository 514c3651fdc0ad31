"""Runs, checkpoints and models on disk or in a store: written whole or not at all."""

from sparsegp.checkpoint.generations import CHECKPOINT_KIND as CHECKPOINT_KIND
from sparsegp.checkpoint.generations import CHECKPOINT_VERSION as CHECKPOINT_VERSION
from sparsegp.checkpoint.generations import Generations as Generations
from sparsegp.checkpoint.lease import Lease as Lease
from sparsegp.checkpoint.lease import LeaseLostError as LeaseLostError
from sparsegp.checkpoint.locks import RunLock as RunLock
from sparsegp.checkpoint.locks import lock_of as lock_of
from sparsegp.checkpoint.places import Place as Place
from sparsegp.checkpoint.places import StorePath as StorePath
from sparsegp.checkpoint.places import folder_bytes as folder_bytes
from sparsegp.checkpoint.places import place_of as place_of
from sparsegp.checkpoint.schema import check_arrays as check_arrays
from sparsegp.checkpoint.schema import restoring as restoring
from sparsegp.checkpoint.store import Bundle as Bundle
from sparsegp.checkpoint.store import is_bundle as is_bundle
from sparsegp.checkpoint.store import read_bundle as read_bundle
from sparsegp.checkpoint.store import remove_bundle as remove_bundle
from sparsegp.checkpoint.store import sweep_bundle as sweep_bundle
from sparsegp.checkpoint.store import write_bundle as write_bundle
