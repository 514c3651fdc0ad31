"""Checkpoints and models, each in one file, on a disk or in an object store."""

from sparsegp.store.files import Stored as Stored
from sparsegp.store.files import read_errors as read_errors
from sparsegp.store.files import read_file as read_file
from sparsegp.store.files import write_file as write_file
from sparsegp.store.folders import Directory as Directory
from sparsegp.store.folders import file_of as file_of
from sparsegp.store.folders import folder_of as folder_of
from sparsegp.store.folders import store_errors as store_errors
from sparsegp.store.runs import CHECKPOINT as CHECKPOINT
from sparsegp.store.runs import CHECKPOINT_FILE as CHECKPOINT_FILE
from sparsegp.store.runs import MODEL as MODEL
from sparsegp.store.runs import MODEL_FILE as MODEL_FILE
from sparsegp.store.runs import RUN_FILE as RUN_FILE
from sparsegp.store.runs import TUNING as TUNING
from sparsegp.store.runs import RunDirectory as RunDirectory
from sparsegp.store.runs import read_progress as read_progress
from sparsegp.store.runs import read_records as read_records
from sparsegp.store.runs import read_run as read_run
from sparsegp.store.runs import records_of as records_of
