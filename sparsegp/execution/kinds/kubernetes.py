"""Pods that the dask operator starts; the driver runs where the command runs."""

from typing import Any

from sparsegp.errors import SettingsError
from sparsegp.execution.clusters import Connection
from sparsegp.execution.clusters import start as start_cluster
from sparsegp.execution.kinds.base import KINDS, NONE, ClusterFile, Kind

DEFAULTS: dict[str, Any] = {
    "name": "sparsegp",
    "worker_command": ["dask", "worker", "--nthreads", "1", "--memory-limit", "0"],
    "quiet": True,
}


def start(file: ClusterFile) -> Connection:
    """Create a `DaskCluster` resource and wait for its pods.

    Raises
    ------
    SettingsError
        If the file does not say ``security: none``.
    """
    if file.security != NONE:
        raise SettingsError(
            f"{file.path}: the operator's client cannot speak TLS; write 'security: none' and keep "
            "other pods away by cluster/kubernetes/network-policy.yaml, or run driver and workers "
            "by cluster/kubernetes/job.yaml, which speak TLS"
        )
    from dask_kubernetes.operator import KubeCluster  # noqa: PLC0415 - an extra

    options = DEFAULTS | {"resource_timeout": int(file.seconds)} | file.options
    manifest = options.get("custom_cluster_spec")
    if isinstance(manifest, str):
        options["custom_cluster_spec"] = str(file.path.parent / manifest)
    direct = options.pop("direct", False)  # pods have addresses of their own network

    def make() -> Any:
        return KubeCluster(n_workers=file.workers, **options)

    return start_cluster(make, file.workers, file.seconds, direct=direct)


TEXTS = "image name namespace scheduler_service_type"
SWITCHES = "direct port_forward_cluster_ip quiet shutdown_on_close"

KINDS.register("kubernetes")(
    Kind(
        start,
        options={
            **dict.fromkeys(TEXTS.split(), (str,)),
            **dict.fromkeys(SWITCHES.split(), (bool,)),
            "custom_cluster_spec": (str, dict),
            "env": (dict, list),
            "idle_timeout": (int,),
            "resource_timeout": (int,),
            "resources": (dict,),
            "worker_command": (str, list),
        },
        needs="dask_kubernetes",
        extra="kubernetes",
    )
)
