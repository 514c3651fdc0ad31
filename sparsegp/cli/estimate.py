"""`sparsegp estimate`."""

from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import plural, print_json, print_pairs, size

if TYPE_CHECKING:
    from sparsegp.estimate import Estimate


@click.command()
@click.argument("data")
@click.option("--test", metavar="DATA", help="Held-out rows; the test part of DATA if left out.")
@shared.settings_options
@shared.WHERE["threads"]
@shared.WHERE["workers"]
@shared.label_column
@shared.as_json
def estimate(
    data: str, test: str | None, label_column: str | None, as_json: bool, **options: Any
) -> None:
    """Tell what training on DATA will take: memory of each process, products, checkpoints.

    The options are those of `train`. With --workers, memory is told for processes on this machine;
    for other clusters, read the line of a worker.
    """
    from sparsegp.estimate import estimate as foretell
    from sparsegp.settings import TrainSettings

    settings = TrainSettings.from_json(shared.given(options, shared.SETTINGS))
    sizes = measure(data, test, label_column)
    wanted = settings.rows_to_include(sizes["n"])
    sizes |= {"settings": settings, **places(options["threads"], options["workers"])}
    found = foretell(n_active=wanted, **sizes)
    room = compare(found, sizes)
    if as_json:
        print_json({**found.to_json(), **room})
    else:
        print_pairs([*work(found), *memory(found), *verdict(found, room)])


def measure(data: str, test: str | None, label_column: str | None) -> dict[str, Any]:
    """Return the sizes of the data, and what they take in memory as they were read."""
    import psutil  # type: ignore[import-untyped]

    from sparsegp.cli.train import open_tables
    from sparsegp.data import encode, table_from_arrays

    table_from_arrays([[0.0]])  # loads dask, which is not to be counted
    process = psutil.Process()
    before = process.memory_info().rss
    train, held_out = open_tables(data, test, label_column)
    classes, _ = encode(train.y, train.source)
    n, p = train.X.shape
    grown = process.memory_info().rss - before  # modules were imported too
    nbytes = train.X.nbytes + (0 if held_out is None else held_out.X.nbytes)
    return {
        "n": int(n),
        "p": int(p),
        "n_classes": len(classes),
        "n_test": 0 if held_out is None else int(held_out.X.shape[0]),
        "source_bytes": int(min(max(grown, 0), 2 * nbytes)),
        "source_itemsize": train.X.dtype.itemsize,
    }


def places(threads: int | None, workers: int | None) -> dict[str, int]:
    """Return how many processes and threads there are to be.

    Raises
    ------
    SettingsError
        If numbers are not positive, or both are given.
    """
    from sparsegp.errors import SettingsError
    from sparsegp.execution.threads import usable_cpus

    if threads is not None and workers is not None:
        raise SettingsError("give only one of threads and workers")
    for name, value in (("threads", threads), ("workers", workers)):
        if value is not None and value < 1:
            raise SettingsError(f"the number of {name} must be at least 1, got {value}")
    return {"n_workers": workers or 0, "n_threads": threads or usable_cpus()}


def compare(found: "Estimate", sizes: dict[str, Any]) -> dict[str, Any]:
    """Return the memory there is, whether the run fits, and the active rows that would."""
    from sparsegp.estimate import most_active

    limit, most = available_bytes(), found.n_active
    fits = found.total_bytes <= limit
    if not fits:
        most = most_active(limit, most, **sizes)
    return {"available_bytes": limit, "fits": fits, "most_active": most}


def available_bytes() -> int:
    """Return the memory that is free on this machine, and within the limit of its container."""
    from sparsegp.execution.memory import free_memory

    return free_memory()


def work(found: "Estimate") -> list[tuple[str, str]]:
    """Return sizes and work in words."""
    total = found.kernel_flops + found.stub_flops
    rows = plural(found.rows, "row")
    held_out = f" and {found.held_out} held out" if found.held_out else ""
    kernels = plural(found.kernels, "kernel")
    return [
        ("data", f"{rows}{held_out}, {plural(found.columns, 'column')}, {found.classes} classes"),
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
    if room["fits"]:
        return [("fits", f"yes, in {free}")]
    most = room["most_active"]
    advice = f"--n-active {most} would fit" if most else "not even one active row would fit"
    return [("fits", f"no: {size(found.total_bytes)} exceed {free}; {advice}")]
