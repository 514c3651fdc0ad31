"""Start or connect to a Dask cluster: local workers, a running scheduler, or a cluster file.

A cluster file is YAML. It gives the number of ``workers``, the ``seconds`` that they may take to
start, and ``direct: false`` if they cannot be reached from here. It also gives the import path of a
class, such as ``class: dask_jobqueue.SLURMCluster``, and the options of the class; or, for a
cluster that runs already, the ``scheduler`` (its address) or ``scheduler_file``, and in ``tls`` the
folder of its certificate.
"""

import gc
import json
import logging
import re
import signal
import stat
import sys
import threading
import time
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

from sparsegp.errors import ClusterError, SettingsError, short
from sparsegp.runtime.dask import DaskRuntime

# distributed is only partly typed
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
    "security": True,  # temporary TLS keys: otherwise any local user could run code as this one
}
SETTINGS = {
    "distributed.scheduler.worker-ttl": "60s",  # a hanging worker is killed by its nanny
    "distributed.comm.timeouts.connect": "10s",
}
ADDRESS = re.compile(r"((tcp|tls|wss?|ucxx?)://)?(\[[\da-fA-F:.]+(%\w+)?\]|[^\s:/@]+):\d{1,5}")
"""Pattern of the addresses of schedulers."""
CLUSTER_KEYS = ("class", "scheduler", "scheduler_file")
VALUE_TYPES = {"workers": (int,), "seconds": (int, float), "direct": (bool,)}
"""Types of the values of a cluster file that are not strings."""
MAX_QUOTED_CHARS = 200
"""Maximum number of characters that a message quotes."""


def start_local(n_workers: int, seconds: float = 60.0) -> DaskRuntime:
    """Start worker processes with one thread each, reachable only from this process.

    They end when this process ends, however it ends. Each imports the main module, so a script
    needs the guard ``if __name__ == "__main__"``; without it a SettingsError is raised.
    """
    if n_workers < 1:
        raise SettingsError(f"the number of workers must be at least 1, got {n_workers}")
    _require_guard()
    options = {**LOCAL_OPTIONS, "n_workers": n_workers}
    return _start("LocalCluster", lambda: LocalCluster(**options), n_workers, seconds)


def _require_guard() -> None:
    """Raise an error for a script without a main guard, since each worker would run it again."""
    main = sys.modules["__main__"]
    path, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if path is None or (spec is not None and spec.name.endswith("__main__")):  # workers skip it
        return
    with suppress(OSError):
        if not re.search(rb"^if\b.*\b__name__\b", Path(path).read_bytes(), re.MULTILINE):
            raise SettingsError(
                f"each worker imports {path}, and would run it again; put what it does below: if "
                '__name__ == "__main__":'
            )


def connect(
    address: str | Path,
    tls: Path | None = None,
    n_workers: int = 1,
    seconds: float = 30.0,
    direct: bool = True,
) -> DaskRuntime:
    """Connect to the scheduler at an address, or to that of a scheduler file.

    It must answer within `seconds`, and then have at least `n_workers` within another `seconds`.
    `tls` is the folder with its certificate; without one, Dask's configuration applies. `direct`
    says whether this process can reach the workers; if not, messages go through the scheduler.
    """
    if isinstance(address, Path):
        address = _address_in(address)
    if not ADDRESS.fullmatch(address):  # Client would leave a half-open one behind
        raise SettingsError(
            f"{address} is not the address of a dask scheduler, such as tcp://10.0.0.5:8786"
        )
    options = {"direct_to_workers": direct, "set_as_default": False, "security": _security(tls)}
    options["timeout"] = seconds
    try:
        with _quiet_dask():
            client = _call_with_timeout(seconds, lambda: Client(address, **options))
    except Exception as error:
        # the answer of another kind of server is misread as a huge message size
        other = isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError)
        reason = "what answers is none" if other else _short(error)
        raise ClusterError(
            f"no dask scheduler answered at {address} within {seconds:g} s ({reason}); "
            "check the address, that the scheduler runs, and whether it wants a certificate"
        ) from error
    with ExitStack() as stack:
        stack.callback(client.close)
        try:
            client.wait_for_workers(n_workers, timeout=seconds)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {address} has {len(client.nthreads())} workers after "
                f"{seconds:g} s, but {n_workers} must be there; start workers with: dask worker "
                f"{address}"
            ) from None
        return runtime_of(address, client, stack.pop_all().close)


def open_cluster_file(path: Path) -> DaskRuntime:
    """Start the cluster that a cluster file describes, or connect to it."""
    options = read_cluster_file(path)
    workers, seconds = options.pop("workers"), options.pop("seconds", 60)
    direct, name = options.pop("direct", True), options.pop("class", None)
    if name is None:
        address = options.get("scheduler") or path.parent / options["scheduler_file"]
        tls = path.parent / options["tls"] if "tls" in options else None
        return connect(address, tls, workers, seconds, direct)
    cluster = _class(path, name)
    ours = {"silence_logs": logging.CRITICAL, **options, "n_workers": workers}
    taken = {*options, *signature(cluster).parameters}
    options = {key: value for key, value in ours.items() if key in taken}
    if options.get("security") is False:
        options["security"] = None  # Dask's value for no TLS
    return _start(f"{path}: {name}", lambda: cluster(**options), workers, seconds, direct)


def read_cluster_file(path: Path) -> dict[str, Any]:
    """Read and check a cluster file, without starting anything.

    Raises
    ------
    SettingsError
        If it cannot be read, or does not define a cluster and its number of workers.
    """
    try:
        options = yaml.load(path.read_text("utf-8"), Loader=_Loader)
    except OSError as error:
        raise SettingsError(f"cannot read the cluster file {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid YAML: {_short(error)}") from None
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise SettingsError(f"{path} must hold keys and values, such as 'workers: 4'")
    own = {*VALUE_TYPES, *CLUSTER_KEYS, "tls"}
    for key in sorted(own & options.keys()):
        if type(options[key]) not in VALUE_TYPES.get(key, (str,)):  # a bool is no int here
            raise SettingsError(f"{path}: {key} cannot be {_short(repr(options[key]))}")
    if len(options.keys() & CLUSTER_KEYS) != 1:
        raise SettingsError(f"{path} must name one of {', '.join(CLUSTER_KEYS)}")
    if options.get("workers", 0) < 1 or not options.get("seconds", 1) > 0:
        raise SettingsError(f"{path}: workers must be at least 1, and seconds more than 0")
    if "class" not in options and (unknown := options.keys() - own):
        raise SettingsError(f"{path}: unknown key {_short(repr(min(unknown)))}")
    return options


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # yaml is not typed
    """Loader of null, booleans, numbers and strings only; times and dates remain strings."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # so 04:00:00 is a string


for _tag, _pattern in {
    "null": r"~|null|",
    "bool": r"true|false",
    "int": r"[-+]?(0|[1-9]\d{0,17})",
    "float": r"[-+]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][-+]?\d+)",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), None)


def _class(path: Path, name: str) -> Callable[..., Any]:
    """Import a cluster class, or a function that creates a cluster, by its import path."""
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
            "by `pip install dask-jobqueue`"
        ) from None


def _start(
    name: str, make: Callable[[], Any], n_workers: int, seconds: float, direct: bool = True
) -> DaskRuntime:
    """Start a cluster, connect to it, and wait for its workers."""
    how = {"direct_to_workers": direct, "set_as_default": False, "timeout": seconds}
    began = time.monotonic()
    try:
        with ExitStack() as stack, dask.config.set(SETTINGS):
            stack.enter_context(_quiet_dask())
            cluster = stack.enter_context(_call_with_timeout(seconds, make))
            client = Client(cluster, **how)
            stack.callback(client.close)
            client.wait_for_workers(n_workers, timeout=seconds)
            client.register_plugin(IgnoreInterrupts())
            close = stack.pop_all().close
    except Exception as error:  # cluster libraries may raise anything
        raise ClusterError(
            f"{name} with {n_workers} workers did not start ({_short(error)}, after "
            f"{time.monotonic() - began:.0f} of {seconds:g} s); in a cluster file, check its "
            "options, or give it longer by 'seconds'"
        ) from error
    if not re.match(r"tls|inproc|\w+://(127\.|localhost|\[::1)", cluster.scheduler_address):
        logging.getLogger(__name__).warning(
            "the cluster at %s does not use TLS: whoever reaches its ports can run code as you; "
            "see cluster/README.md",
            cluster.scheduler_address,
        )

    def replenish() -> None:  # replaces workers that Dask has given up
        with suppress(Exception):  # some clusters maintain the number themselves
            cluster.scale(n_workers)

    return runtime_of(name, client, close, replenish)


def runtime_of(
    name: str, client: Client, close: Callable[[], None], *replenish: Callable[[], None]
) -> DaskRuntime:
    """Return a runtime of the workers of a client; if they are gone, close what was open."""
    try:
        return DaskRuntime(client, close, *replenish)
    except Exception as error:
        close()
        raise ClusterError(
            f"{name} went away ({_short(error)}); check that the scheduler runs"
        ) from error


@contextmanager
def _quiet_dask() -> Iterator[None]:
    """Show only critical messages of Dask."""

    def is_shown(record: logging.LogRecord) -> bool:  # a handler may serve other loggers too
        return record.levelno >= logging.CRITICAL or not record.name.startswith("distributed")

    handlers = [*logging.getLogger("distributed").handlers]
    for handler in handlers:
        handler.addFilter(is_shown)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_shown)


def _call_with_timeout(seconds: float, make: Callable[[], Any]) -> Any:
    """Return the result of `make`; after `seconds` raise a TimeoutError, and close a late result.

    Garbage is collected first: the finalizer of a lost client closes it, and would wait forever if
    it ran while another client of this process starts.
    """
    gc.collect()
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
    """Return the `distributed.Security` for the certificate in a folder."""
    if folder is None:
        return Security()
    names = {"tls_ca_file": "ca.pem", "tls_client_cert": "cert.pem", "tls_client_key": "key.pem"}
    try:
        files = {option: str(folder.expanduser() / name) for option, name in names.items()}
        security = Security(require_encryption=True, **files)
        security.get_connection_args("client")
    except (OSError, ValueError, RuntimeError) as error:  # ssl.SSLError, unknown ~user
        raise SettingsError(
            f"{folder} must hold ca.pem, cert.pem and key.pem of one certificate ({_short(error)})"
        ) from None
    mode = folder.expanduser().stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise SettingsError(
            f"a private key must be in a folder that others cannot write, and {folder} has mode "
            f"{stat.S_IMODE(mode):o}; chmod go-w it"
        )
    return security


def _address_in(path: Path) -> str:
    """Return the address in a scheduler file."""
    try:
        return str(json.loads(path.read_text("utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = "cannot be read" if isinstance(error, OSError) else "holds no scheduler address"
        raise ClusterError(
            f"scheduler file {path} {what}; start the scheduler with: dask scheduler "
            f"--scheduler-file {path}"
        ) from error


def _short(found: object) -> str:
    """Return an object, or the root cause of an error, as one line of bounded length."""
    while isinstance(found, BaseException) and found.__cause__ is not None:
        found = found.__cause__
    text = " ".join(str(found)[: 2 * MAX_QUOTED_CHARS].split()) or type(found).__name__
    return short(text, MAX_QUOTED_CHARS)


class IgnoreInterrupts(distributed.WorkerPlugin):
    """Plugin by which workers survive Ctrl-C, which reaches all processes of the terminal."""

    def setup(self, worker: distributed.Worker) -> None:
        """Ignore SIGINT; a worker process runs this in its main thread."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def client_in_use() -> Any:
    """Return the current Dask client; None if there is none."""
    try:
        return Client.current()
    except ValueError:
        return None
