"""Kinds of clusters that a cluster file can ask for: one file each, found by name."""

from sparsegp.execution.kinds import kubernetes, local, scheduler, slurm, ssh
from sparsegp.execution.kinds.base import KINDS as KINDS
from sparsegp.execution.kinds.base import ClusterFile as ClusterFile
from sparsegp.execution.kinds.base import Kind as Kind

MEMBERS = (kubernetes, local, scheduler, slurm, ssh)
