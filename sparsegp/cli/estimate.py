"""`sparsegp estimate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, pairs, plural, show, size

if TYPE_CHECKING:
    from sparsegp.estimate import Estimate
    from sparsegp.settings import DenseSettings


@click.command()
@click.argument("data")
@shared.test
@shared.task
@shared.settings
@shared.dense
@shared.threads
@shared.workers
@shared.cluster
@click.option("--block-rows", type=int, metavar="N", help="Rows in a block.")
@click.option("--scratch", is_flag=True, help="Inputs and stub matrices are in files.")
@shared.label_column
@shared.as_json
def estimate(
    data: str, test: str | None, label_column: str | None, as_json: bool, **options: Any
) -> None:
    """Tell what training on DATA will take: memory of each process, products, checkpoints.

    The options are those of `train`. With --workers, memory is told for processes on this machine.
    With --cluster, the file tells how many workers there are; nothing is started.
    """
    from sparsegp.estimate import estimate as foretell
    from sparsegp.settings import DenseSettings, settings_given

    settings = settings_given(**shared.settings_of(options))
    sizes = measure(data, test, label_column, settings.is_regression)
    if isinstance(settings, DenseSettings):
        tell_dense(settings, sizes, as_json)
        return
    sizes["n_active"] = settings.rows_to_include(sizes["n"])
    processes, elsewhere = places(options["threads"], options["workers"], options["cluster"])
    sizes |= {"settings": settings, "block_rows": options["block_rows"], **processes}
    sizes["scratch"] = options["scratch"]
    found = foretell(**sizes)
    room = compare(found, sizes, elsewhere)
    lines = pairs([*work(found), *memory(found), *verdict(found, room)])
    show([json_line({**found.to_json(), **room})] if as_json else lines)


def tell_dense(settings: "DenseSettings", sizes: dict[str, Any], as_json: bool) -> None:
    """Print what a dense method will take."""
    from sparsegp.estimate import estimate_dense

    names = ("n", "p", "n_classes", "source_bytes")
    found = estimate_dense(settings=settings, **{name: sizes[name] for name in names})
    limit = available_bytes()
    fits, most = found.total_bytes <= limit, found.most_rows(limit)
    if as_json:
        room = {"available_bytes": limit, "fits": fits, "most_rows": most}
        show([json_line({**found.to_json(), **room})])
        return
    labels = f"{found.classes} classes" if found.classes else "a regression"
    free = f"the {size(limit)} that are free on this machine"
    no = f"no: {size(found.total_bytes)} exceed {free}; {most} rows would fit"
    named = [
        ("data", f"{plural(found.rows, 'row')}, {plural(found.columns, 'column')}, {labels}"),
        ("products", f"{found.flops:.3g} floating-point operations for every factorisation"),
        ("memory", f"{size(found.total_bytes)}, {found.matrices} matrices of all rows"),
        ("fits", f"yes, in {free}; up to {most} rows would" if fits else no),
    ]
    show(pairs(named))


def measure(data: str, test: str | None, label_column: str | None, numeric: bool) -> dict[str, Any]:
    """Return the sizes of the data, and what they take in memory as they were read.

    Labels are classes, or numbers if `numeric`, of which there are no classes.
    """
    import psutil  # type: ignore[import-untyped]

    from sparsegp.cli.tables import training_tables
    from sparsegp.data import Numbers, encode, table_from_arrays
    from sparsegp.fit.training import held_bytes

    table_from_arrays([[0.0]])  # loads dask, which is not to be counted
    process = psutil.Process()
    before = process.memory_info().rss
    train, held_out = training_tables(data, test, label_column)
    if numeric:
        Numbers.of(train.y, train.source)  # refuses what are none
    n_classes = 0 if numeric else len(encode(train.y, train.source)[0])
    n, p = train.X.shape
    grown = process.memory_info().rss - before  # modules were imported too
    held = held_bytes(train.X)
    nbytes = train.X.nbytes + (0 if held_out is None else held_out.X.nbytes)
    return {
        "n": int(n),
        "p": int(p),
        "n_classes": n_classes,
        "n_test": 0 if held_out is None else int(held_out.X.shape[0]),
        "source_bytes": held and max(held, min(grown, 2 * nbytes)),
        "source_itemsize": train.X.dtype.itemsize,
        "chunk_rows": max(train.X.chunks[0]),
    }


def places(
    threads: int | None, workers: int | None, cluster: str | None
) -> tuple[dict[str, int], bool]:
    """Return how many processes and threads there are to be, and if workers are elsewhere.

    Raises
    ------
    SettingsError
        If numbers are not positive, more than one is given, or the cluster file is wrong.
    """
    from sparsegp.errors import SettingsError
    from sparsegp.runtime.threads import usable_cpus

    if sum(option is not None for option in (threads, workers, cluster)) > 1:
        raise SettingsError("give only one of threads, workers and cluster")
    if cluster is not None:
        from sparsegp.runtime.clusters import read_cluster_file

        file = read_cluster_file(Path(cluster))
        local = str(file.get("class")).endswith("LocalCluster")
        return {"n_workers": file["workers"], "n_threads": 1}, not local
    for name, value in (("threads", threads), ("workers", workers)):
        if value is not None and value < 1:
            raise SettingsError(f"the number of {name} must be at least 1, got {value}")
    return {"n_workers": workers or 0, "n_threads": threads or usable_cpus()}, False


def compare(found: "Estimate", sizes: dict[str, Any], elsewhere: bool) -> dict[str, Any]:
    """Return the memory there is here, whether what runs here fits, the active rows that would."""
    from sparsegp.estimate import Places, most_active, remedies
    from sparsegp.runtime.memory import Room

    limit, most = available_bytes(), found.n_active
    if elsewhere:
        return {"available_bytes": limit, "fits": found.driver_bytes <= limit, "elsewhere": True}
    fits, would_fit = found.total_bytes <= limit, []
    if not fits:
        most = most_active(limit, **sizes)
        here = Room("this machine", "here", limit)
        would_fit = list(remedies(Places(here, [here] * found.n_workers), **sizes))
    return {
        "available_bytes": limit,
        "fits": fits,
        "most_active": most,
        "would_fit": would_fit,
    }


def available_bytes() -> int:
    """Return the memory that is free on this machine, and within the limit of its container."""
    from sparsegp.runtime.memory import free_memory

    return free_memory()


def work(found: "Estimate") -> list[tuple[str, str]]:
    """Return sizes and work in words."""
    total = found.kernel_flops + found.stub_flops
    rows = plural(found.rows, "row")
    held_out = f" and {found.held_out} held out" if found.held_out else ""
    kernels = plural(found.kernels, "kernel")
    labels = f"{found.classes} classes" if found.classes else "a regression"
    return [
        ("data", f"{rows}{held_out}, {plural(found.columns, 'column')}, {labels}"),
        ("active rows", f"{found.n_active}, {kernels}"),
        (
            "products",
            f"{total:.3g} floating-point operations: kernel columns {found.kernel_flops:.3g}, "
            f"stub matrices {found.stub_flops:.3g}",
        ),
        (
            "messages",
            f"at least {found.rounds} rounds, {found.messages} calls to each worker, of up to "
            f"{size(found.message_bytes)}",
        ),
        ("checkpoint", size(found.checkpoint_bytes)),
    ]


def memory(found: "Estimate") -> list[tuple[str, str]]:
    """Return the memory of every kind of process in words."""
    blocks, driver = found.blocks, found.driver
    of_blocks = (
        f"inputs {size(blocks.inputs)}, stub matrices {size(blocks.stub)}, "
        f"means and variances {size(blocks.marginals + blocks.anchors)}, "
        f"temporaries {size(blocks.temporaries)}"
    )
    of_driver = (
        f"data as read {size(driver.source)}, factors {size(driver.factors + driver.checkpoint)}, "
        f"posterior {size(driver.posterior)}"
    )
    if not found.n_workers:
        return [("memory", size(found.driver_bytes)), ("  rows", of_blocks), ("  model", of_driver)]
    return [
        ("a worker", f"{size(found.worker_bytes)}: {of_blocks}"),
        ("the driver", f"{size(found.driver_bytes)}: {of_driver}"),
        ("memory", f"{size(found.total_bytes)} for {plural(found.n_workers, 'worker')} and driver"),
    ]


def verdict(found: "Estimate", room: dict[str, Any]) -> list[tuple[str, str]]:
    """Return whether the run fits this machine, in words."""
    free = f"the {size(room['available_bytes'])} that are free on this machine"
    if "elsewhere" in room:
        no = f"no: {size(found.driver_bytes)} exceed {free}"
        worker = f"{size(1.15 * found.worker_bytes)} or more"
        return [
            ("driver fits", f"yes, in {free}" if room["fits"] else no),
            ("give a worker", worker),
        ]
    if room["fits"]:
        return [("fits", f"yes, in {free}")]
    advice = ", or ".join(room["would_fit"])
    advice = f"{advice} would fit" if advice else "not even one active row would fit"
    return [("fits", f"no: {size(found.total_bytes)} exceed {free}; {advice}")]
