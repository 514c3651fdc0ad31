"""Jobs of a SLURM queue, one for each worker; scheduler and driver run where the command runs."""

from contextlib import ExitStack
from typing import Any

from sparsegp.execution.clusters import LOOPBACK, Connection
from sparsegp.execution.clusters import start as start_cluster
from sparsegp.execution.kinds.base import KINDS, TEMPORARY, ClusterFile, Kind

ALONE = ["--memory-limit", "0", "--dashboard-address", f"{LOOPBACK}:0"]
"""Row blocks cannot be spilled; no page of a worker is shown to other machines."""


def start(file: ClusterFile) -> Connection:
    """Submit the jobs and wait until the workers of all of them are there."""
    from dask_jobqueue import SLURMCluster  # noqa: PLC0415 - an extra

    given = dict(file.options)
    scheduler: dict[str, Any] = {"dashboard_address": f"{LOOPBACK}:0"}
    scheduler |= given.pop("scheduler_options", {})
    arguments = [*ALONE, *given.pop("worker_extra_args", [])]
    with ExitStack() as stack:
        shared = given.pop("shared_temp_directory", ".")
        certificate = file.certificate(stack, TEMPORARY, shared)
        options = {
            "cores": 1,
            "processes": 1,
            **given,
            "scheduler_options": scheduler,
            "worker_extra_args": arguments,
            "security": certificate and certificate.security(),
        }

        def make() -> Any:
            return SLURMCluster(n_workers=file.workers, **options)

        connection = start_cluster(make, file.workers, file.seconds, upkeep=True)
        return connection.ending(stack.pop_all())


TEXTS = (
    "account job_mem job_name interface local_directory log_directory memory name python queue "
    "shared_temp_directory shebang walltime"
)
LISTS = "job_directives_skip job_extra_directives job_script_prologue worker_extra_args"
NUMBERS = "cores death_timeout job_cpu processes"

KINDS.register("slurm")(
    Kind(
        start,
        options={
            **dict.fromkeys(TEXTS.split(), (str,)),
            **dict.fromkeys(LISTS.split(), (list,)),
            **dict.fromkeys(NUMBERS.split(), (int,)),
            "nanny": (bool,),
            "scheduler_options": (dict,),
        },
        required=("memory",),
        needs="dask_jobqueue",
        extra="slurm",
    )
)
