"""Tuning of the kernel: candidates, rungs, trials and their records."""

from sparsegp.tuning.api import MAX_TRIALS as MAX_TRIALS
from sparsegp.tuning.api import tunable as tunable
from sparsegp.tuning.api import tune as tune
from sparsegp.tuning.driver import Tuned as Tuned
from sparsegp.tuning.records import read_records as read_records
