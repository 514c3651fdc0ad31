"""Ways to a Dask cluster: workers of this machine, a running scheduler, or what a file names.

A cluster file is YAML. It says how many ``workers`` there are to be, how many ``seconds`` they may
take to start, and with ``direct: false`` that they cannot be reached from here. Then comes the
import path of a class, such as ``class: dask_jobqueue.SLURMCluster``, and the options of the class;
or the ``scheduler`` (its address) or ``scheduler_file`` of a cluster that runs already, and in
``tls`` the folder of its certificate.
"""

import json
import logging
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import dask
import distributed
import yaml

from sparsegp.errors import ClusterError, SettingsError
from sparsegp.runtime.dask import DaskRuntime

# distributed is typed in part: its objects are taken as they come
Client: Any = distributed.Client
LocalCluster: Any = distributed.LocalCluster
Security: Any = distributed.Security

LOOPBACK = "127.0.0.1"
LOCAL_OPTIONS: dict[str, Any] = {
    "threads_per_worker": 1,
    "memory_limit": 0,  # blocks cannot be spilled to disk
    "host": LOOPBACK,
    "dashboard_address": f"{LOOPBACK}:0",
    "worker_dashboard_address": f"{LOOPBACK}:0",
    "silence_logs": logging.CRITICAL,
    "security": True,  # a certificate of its own, or any user of this machine could run code as us
}
SETTINGS = {
    "distributed.scheduler.worker-ttl": "60s",  # a worker that hangs is ended by its nanny
    "distributed.comm.timeouts.connect": "10s",
}
MOST_LETTERS = 200
"""Of what was found, in a message."""


def start_local(n_workers: int, seconds: float = 60.0) -> DaskRuntime:
    """Start worker processes with one thread each, reachable from this process alone.

    They end by themselves when this process ends, however it ends. The main module of a script is
    imported by each of them, so a script needs the guard ``if __name__ == "__main__"``.

    Parameters
    ----------
    n_workers : int
    seconds : float
        That scheduler and workers may take to start, each.

    Raises
    ------
    SettingsError
        If `n_workers` is less than 1.
    ClusterError
        If the workers do not start in time.
    """
    if n_workers < 1:
        raise SettingsError(f"the number of workers must be at least 1, got {n_workers}")
    try:
        return _start(
            lambda: LocalCluster(n_workers=n_workers, **LOCAL_OPTIONS), n_workers, seconds
        )
    except Exception as error:
        raise ClusterError(
            f"{n_workers} worker processes did not start in {seconds:g} s ({_short(error)}); a "
            'script that starts workers needs the guard: if __name__ == "__main__"'
        ) from error


def connect(
    address: str | None = None,
    scheduler_file: Path | None = None,
    tls: Path | None = None,
    n_workers: int = 1,
    seconds: float = 30.0,
    direct: bool = True,
) -> DaskRuntime:
    """Connect to a running scheduler and wait for workers.

    Parameters
    ----------
    address : str, optional
        Of the scheduler.
    scheduler_file : Path, optional
        That the scheduler wrote, in place of the address.
    tls : Path, optional
        Folder with the certificate of the cluster: ca.pem, cert.pem, key.pem. If left out, what the
        configuration of Dask says.
    n_workers : int
        At least so many must be there.
    seconds : float
        That scheduler and workers may take to answer, each.
    direct : bool
        Whether this process can reach the workers; else messages go through the scheduler.

    Raises
    ------
    SettingsError
        If the certificate cannot be used.
    ClusterError
        If the file is damaged, or scheduler or workers are not there in time.
    """
    place = address if scheduler_file is None else _address_in(scheduler_file)
    options = {"direct_to_workers": direct, "set_as_default": False, "security": _security(tls)}
    with ExitStack() as stack:
        try:
            with _quiet_logs():
                client = _within(seconds, lambda: Client(place, timeout=seconds, **options))
            stack.callback(client.close)
        except Exception as error:
            raise ClusterError(
                f"no dask scheduler answered at {place} within {seconds:g} s ({_short(error)}); "
                "check the address, that the scheduler runs, and whether it wants a certificate"
            ) from error
        try:
            client.wait_for_workers(n_workers, timeout=seconds)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {place} has {len(client.nthreads())} workers after {seconds:g} "
                f"s, but {n_workers} must be there; start workers with: dask worker {place}"
            ) from None
        return DaskRuntime(client, stack.pop_all().close)


def open_cluster_file(path: Path) -> DaskRuntime:
    """Start the cluster of a file, or connect to it.

    Raises
    ------
    SettingsError
        If the file is wrong, or a package is missing.
    ClusterError
        If the cluster does not start in time.
    """
    options = read_cluster_file(path)
    workers, seconds = options.pop("workers"), options.pop("seconds", 60)
    direct, name = options.pop("direct", True), options.pop("class", None)
    if name is None:
        files = {
            key: path.parent / options[key] for key in ("scheduler_file", "tls") if key in options
        }
        return connect(
            options.get("scheduler"), **files, n_workers=workers, seconds=seconds, direct=direct
        )
    cluster = _class(path, name)
    if "n_workers" in signature(cluster).parameters:
        options["n_workers"] = workers
    try:
        return _start(lambda: cluster(**options), workers, seconds, direct)
    except Exception as error:  # whatever a library of clusters raises
        raise ClusterError(
            f"{path}: {name} with {workers} workers did not start ({_short(error)}); check its "
            "options, or give it longer by 'seconds'"
        ) from error


def read_cluster_file(path: Path) -> dict[str, Any]:
    """Read and check a file, without starting anything.

    Raises
    ------
    SettingsError
        If it cannot be read, or does not say which cluster is meant and how many workers.
    """
    try:
        options = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise SettingsError(f"cannot read the cluster file {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid YAML: {_short(error)}") from None
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise SettingsError(f"{path} must hold keys and values, such as 'workers: 4'")
    kinds: dict[str, tuple[type, ...]] = {
        "workers": (int,),
        "seconds": (int, float),
        "direct": (bool,),
    }
    for key in (key for key in options if key in (*kinds, *PLACES, "tls")):
        if type(options[key]) not in kinds.get(key, (str,)):  # a truth value is no number
            raise SettingsError(f"{path}: {key} cannot be {_short(repr(options[key]))}")
    if len(options.keys() & PLACES) != 1:
        raise SettingsError(f"{path} must name one of {', '.join(PLACES)}")
    if not 1 <= options.get("workers", 0) <= MOST_WORKERS or not options.get("seconds", 1) > 0:
        raise SettingsError(f"{path}: workers must be at least 1, and seconds more than 0")
    unknown = options.keys() - {*kinds, *PLACES, "tls"}
    if "class" not in options and unknown:
        raise SettingsError(f"{path}: unknown key {_short(repr(min(unknown)))}")
    return options


PLACES = ("class", "scheduler", "scheduler_file")
MOST_WORKERS = 100_000


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # yaml is not typed
    """Plain values alone: no aliases, which can make a short file a huge one, no dates or times."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # so 04:00:00 is a text

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(
                f"aliases are not read (line {self.peek_event().start_mark.line + 1})"
            )
        return super().compose_node(parent, index)


for _tag, _pattern in {
    "null": r"~|null|",
    "bool": r"true|false",
    "int": r"[-+]?(0|[1-9]\d{0,17})",
    "float": r"[-+]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][-+]?\d+)",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), None)


def _class(path: Path, name: str) -> Callable[..., Any]:
    """Return a class of clusters, or the function that stands for one, by its import path."""
    module, _, attribute = name.rpartition(".")
    if not module or not attribute.endswith("Cluster"):
        raise SettingsError(
            f"{path}: class must be a cluster's import path, such as dask_jobqueue.SLURMCluster, "
            f"got {_short(name)}"
        )
    try:
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"{path}: there is no {_short(name)} ({_short(error)}); install its package, such as "
            "by: pip install 'sparsegp[slurm]'"
        ) from None


def _start(
    make: Callable[[], Any], n_workers: int, seconds: float, direct: bool = True
) -> DaskRuntime:
    """Start a cluster, connect to it, and wait for its workers."""
    with ExitStack() as stack, dask.config.set(SETTINGS):
        stack.enter_context(_quiet_logs())
        cluster = stack.enter_context(_within(seconds, make))
        client = Client(cluster, direct_to_workers=direct, set_as_default=False, timeout=seconds)
        stack.callback(client.close)
        client.wait_for_workers(n_workers, timeout=seconds)
        client.register_plugin(IgnoreInterrupts())
        if not re.match(r"tls|inproc|\w+://(127\.|localhost|\[::1)", client.scheduler.address):
            logging.getLogger(__name__).warning(
                "the cluster at %s speaks no TLS: whoever reaches its ports can run code there as "
                "you; see cluster/README.md",
                client.scheduler.address,
            )

        def replenish() -> None:  # starts those that Dask has given up by now
            with suppress(Exception):  # some clusters keep up their number themselves
                cluster.scale(n_workers)

        return DaskRuntime(client, stack.pop_all().close, replenish)


def _within(seconds: float, make: Callable[[], Any]) -> Any:
    """Return what `make` returns; what comes too late, a TimeoutError, is closed."""
    made: Future[Any] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name="sparsegp-cluster", daemon=True).start()
    try:
        return made.result(seconds)
    except TimeoutError:
        made.add_done_callback(lambda late: late.exception() or late.result().close())
        raise


def _security(folder: Path | None) -> Any:
    """Return what distributed takes for the certificate in a folder."""
    if folder is None:
        return Security()
    ca, cert, key = (str(folder.expanduser() / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    security = Security(
        require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key
    )
    try:
        security.get_connection_args("client")
    except (OSError, ValueError, RuntimeError) as error:  # also ssl.SSLError, and ~nobody
        raise SettingsError(
            f"{folder} must hold ca.pem, cert.pem and key.pem of one certificate ({_short(error)})"
        ) from None
    return security


def _address_in(path: Path) -> str:
    """Return the address that a scheduler wrote to a file."""
    try:
        return str(json.loads(path.read_text())["address"])
    except OSError as error:
        raise ClusterError(
            f"scheduler file {path} cannot be read ({error.strerror}); start the scheduler with: "
            f"dask scheduler --scheduler-file {path}"
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ClusterError(f"scheduler file {path} holds no scheduler address") from error


def _short(found: object) -> str:
    """Return what was found, or the first cause of an error, in one line of bounded length."""
    while isinstance(found, BaseException) and found.__cause__ is not None:
        found = found.__cause__
    text = " ".join(str(found)[: 2 * MOST_LETTERS].split()) or type(found).__name__
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keep the log lines of distributed from the terminal."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


class IgnoreInterrupts(distributed.WorkerPlugin):
    """Lets workers live on when an interrupt from the keyboard reaches all processes at once."""

    def setup(self, worker: distributed.Worker) -> None:
        """Ignore the signal; a worker process runs this in its main thread."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def client_in_use() -> Any:
    """Return the client that Dask computes with here, None if there is none."""
    try:
        return Client.current()
    except ValueError:
        return None
