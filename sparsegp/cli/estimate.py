"""`sparsegp estimate`."""

import timeit
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, pairs, show
from sparsegp.errors import SettingsError, size
from sparsegp.lists import plural
from sparsegp.settings import AUTO, settings_given

if TYPE_CHECKING:
    from sparsegp.data import Table

SELECTING, ROUNDS, A_ROW, FACTORS, STARTING = 2.0, 60.0, 25e3, 60.0, 1.0
"""Time of a selection relative to its matrix products; iterations of a posterior; operations per
row and class in each; operations divided by the cube of the active rows; seconds to start: from
three runs on two cores. A regression needs no iterations, but twice `FACTORS`, for eigenvectors."""
TRIED, EXAMINED, PARTS = 50, 10_000, 3
"""Number of matrix products in the benchmark (about a tenth of a second); number of rows examined
to find out whether there is a search for the kernel; number of parts of the memory shown."""


@click.command(cls=shared.GroupedCommand)
@click.argument("data")
@shared.test
@shared.task
@shared.settings
@shared.dense
@shared.threads
@shared.workers
@shared.cluster
@shared.number("--block-rows", "Rows per block.")
@click.option("--scratch", is_flag=True, help="Keep inputs and stub matrices in files.")
@shared.first_columns
@shared.as_json
def estimate(data: str, test: str | None, as_json: bool, **options: Any) -> None:
    """Estimate the time, memory per process and checkpoint size of training on DATA.

    The time is a rough estimate for the final fit, from a short benchmark of matrix products on one
    thread of this machine. A search for the kernel usually takes up to a minute more, or with over
    16,000 rows one or two minutes. Its memory is included. If it chooses the number of active rows,
    the time with 2000, 4000 or 8000 is shown too, if memory and half of the rows suffice.

    The options are those of `train`. With --workers, memory is that of processes on this machine.
    With --cluster, the number of workers is read from the file; nothing is started.
    """
    from sparsegp.cli.tables import training_tables
    from sparsegp.data import Numbers, encode
    from sparsegp.fit.blocks import BLOCK_ROWS
    from sparsegp.free_memory import free_memory, remedies
    from sparsegp.learning.plan import ACTIVE_SIZES
    from sparsegp.memory import estimate as bytes_of
    from sparsegp.memory import held_bytes, shape_of

    named = shared.given(options, shared.SETTINGS)
    settings = settings_given(**named)
    settings.require_used(named)
    columns = shared.given(options, shared.COLUMNS) | {"is_regression": settings.is_regression}
    train, held_out = training_tables(data, test, **columns)
    train, n_classes = train.learnt(), 0
    if settings.is_regression:
        Numbers.of(train.y, train.source)  # raises if they are not numbers
    else:
        n_classes = len(encode(train.y, train.source)[0])
    where, elsewhere = place(options)
    where |= {
        "block_rows": BLOCK_ROWS.checked(options["block_rows"]),
        "scratch": options["scratch"],
    }
    where["source_bytes"] = held_bytes(train.X)
    shape = shape_of(train, held_out, n_classes, settings, **where)
    found, space = bytes_of(shape), free_memory()
    need = "driver_bytes" if elsewhere and "driver_bytes" in found else "total_bytes"
    free = found["available_bytes"] = min(space.shared, space.own)
    found["fits"] = found[need] <= free
    if not found["fits"]:
        fits = remedies(shape, lambda other: bool(bytes_of(other)[need] <= free))
        found["would_fit"] = [shared.as_typed(each) for each in fits]
    found["searches"] = searches(train, settings)
    found["learns"] = settings.learn != "none"
    found["seconds"] = seconds(found, settings, threads := shape.n_workers or shape.n_threads)
    if found["searches"] and getattr(settings, "n_active", 0) is None:
        shapes = (replace(shape, n_active=d) for d in ACTIVE_SIZES if 2 * d <= shape.n)
        for larger in map(bytes_of, shapes):
            if larger[need] <= free and larger["n_active"] > found["n_active"]:
                found["most_active"] = larger["n_active"]
                found["most_seconds"] = seconds(larger, settings, threads)
    show([json_line(found)] if as_json else pairs(words(found)))


def searches(train: "Table", settings: Any) -> bool:
    """Return whether a run would search for its kernel, judging by its first rows."""
    import numpy as np

    from sparsegp.data import summarise
    from sparsegp.fit.prepare import Prepared, choose_scaling
    from sparsegp.fit.tune import unsuited
    from sparsegp.learning.plan import MIN_ROWS_FOR_SEARCH

    if settings.kernel != AUTO or len(train.X) < MIN_ROWS_FOR_SEARCH:
        return False
    first = replace(train, X=train.X[:EXAMINED], y=None, weights=None)
    summary = replace(summarise(first), n=len(train.X))
    scaling = choose_scaling(settings.scaling, train, summary, settings, None)
    return not unsuited(Prepared(train, np.empty(0), None, summary, scaling), settings)


def seconds(found: dict[str, Any], settings: Any, threads: int) -> float:
    """Estimate the seconds of a run; for a dense method those of one factorisation.

    Parameters
    ----------
    found : dict
        An estimate.
    settings : TrainSettings or DenseSettings
    threads : int
        Number of threads or workers that compute at the same time.
    """
    speed = operations_per_second()
    if "flops" in found:
        return float(found["flops"] / speed)
    n, d, latent = found["rows"], found["n_active"], max(found["classes"], 1)
    selections = settings.major_steps + 1 if settings.learn == "evidence" else 1
    work = SELECTING * selections * (found["kernel_flops"] + found["stub_flops"])
    alone = 0.0  # operations of the driver
    if settings.posterior == "all":
        rounds, factors = (0.0, 2.0 * FACTORS) if settings.is_regression else (ROUNDS, FACTORS)
        work += 2.0 * n * d**2 * found["kernels"] + rounds * n * latent * (4.0 * d + A_ROW)
        alone = factors * found["kernels"] * d**3
    work *= settings.dtype.itemsize / 4  # the speed is that of single precision
    return float(STARTING + (work / threads + alone) / speed)


def operations_per_second() -> float:
    """Measure the operations per second of one thread in matrix products."""
    import numpy as np

    from sparsegp.blas import single_threaded_blas

    left, right = np.ones((256, 1000), np.float32), np.ones((1000, 256), np.float32)
    with single_threaded_blas():
        best = min(timeit.repeat(lambda: left @ right, number=1, repeat=TRIED))
    return 2.0 * left.size * 256 / best


def place(options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the number of workers or threads, and whether workers are on other machines."""
    from sparsegp.runtime.clusters import read_cluster_file
    from sparsegp.runtime.threads import usable_cpus

    shared.place(options)  # raises if several places are given
    if options["cluster"] is not None:
        file = read_cluster_file(Path(options["cluster"]))
        return {"n_workers": file["workers"]}, not str(file.get("class")).endswith("LocalCluster")
    named = shared.given(options, ("threads", "workers")) or {"threads": usable_cpus()}
    ((name, number),) = named.items()
    if number < 1:
        raise SettingsError(f"the number of {name} must be at least 1, got {number}")
    return {f"n_{name}": number}, False


def largest(parts: dict[str, int]) -> str:
    """Return the largest parts of the memory of a process, in words; not all exist at once."""
    some = sorted(parts, key=lambda name: -parts[name])[:PARTS]
    named = ", ".join(f"{name} {size(parts[name])}" for name in some if parts[name] > 1)
    return f"; parts, not all at once: {named}"


def about(seconds: float) -> str:
    """Return a rough number of seconds, in words."""
    return f"{float(format(seconds, '.2g')):,.12g} s"


def words(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and values of an estimate for display."""
    from sparsegp.learning.plan import MAX_ROWS

    count = found.get("held_out")
    test = f" and {plural(count, 'test row')}" if count else ""
    labels = f"{found['classes']} classes" if found["classes"] else "a regression"
    rows, columns = plural(found["rows"], "row"), plural(found["columns"], "column")
    yield "data", f"{rows}{test}, {columns}, {labels}"
    flops = {name: found[name] for name in ("flops", "kernel_flops", "stub_flops") if name in found}
    each = ", ".join(f"{name.replace('_', ' ')} {count:.3g}" for name, count in flops.items())
    yield "products", f"{each}{' a factorisation' if 'flops' in flops else ''}"
    if "matrices" in found:
        workers = f", {found['matrices']} matrices of all rows"
    else:
        yield "active rows", f"{found['n_active']}, {plural(found['kernels'], 'kernel')}"
        yield "checkpoint", size(found["checkpoint_bytes"])
        blocks, driver = found["blocks"], dict(found["driver"])
        if found["n_workers"]:
            trial = {"search": driver.pop("search")}  # by workers
            yield "worker", f"{size(found['worker_bytes'])}{largest(blocks | trial)}"
            yield "driver", f"{size(found['driver_bytes'])}{largest(driver)}"
            workers = f" for {plural(found['n_workers'], 'worker')} and driver"
        else:
            workers = largest(blocks | driver)
    yield "memory", f"{size(found['total_bytes'])}{workers}"
    more = ", without the learning of the kernel" if found["learns"] else ""
    more = " for one factorisation" if "flops" in found else more
    if found["searches"]:
        usual = "one or two minutes" if found["rows"] > MAX_ROWS else "up to a minute"
        more = f", and usually {usual} to choose the kernel"
        if "most_active" in found:
            most = f"{about(found['most_seconds'])} with {found['most_active']}"
            more = f" with {found['n_active']} active rows, {most}{more} and the number"
    yield "time", f"roughly {about(found['seconds'])} here{more}"
    free = f"the {size(found['available_bytes'])} that are free on this machine"
    would = ", or ".join(found.get("would_fit", ())) or "no number of active rows"
    yield "fits", f"yes, in {free}" if found["fits"] else f"no: more than {free}; {would} would fit"
