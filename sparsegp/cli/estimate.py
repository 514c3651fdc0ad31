"""`sparsegp estimate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.grouped import GroupedCommand
from sparsegp.cli.output import json_line, pairs, plural, show, size
from sparsegp.errors import SettingsError

SELECTING, ROUNDS, A_ROW, FACTORS, STARTING = 2.0, 60.0, 25e3, 60.0, 1.0
"""Time of a selection by that of its bare products; rounds of a posterior, operations for each row
and class in one, and for each cube of active rows; seconds to start. From three runs, two cores."""

TRIED_SECONDS = 0.05
"""For which products of matrices are tried."""


@click.command(cls=GroupedCommand)
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
@shared.columns
@shared.as_json
def estimate(data: str, test: str | None, as_json: bool, **options: Any) -> None:
    """Estimate what training on DATA will take: time, memory of each process, checkpoints.

    The time is rough: products of matrices are tried for a moment on one thread of this machine.
    It is that of the last fit: where no kernel is given, the search for one takes once to three
    times as long before it.

    The options are those of `train`. With --workers, memory is that of processes on this machine.
    With --cluster, the file says how many workers there are; nothing is started.
    """
    from sparsegp import memory
    from sparsegp.cli.tables import training_tables
    from sparsegp.data import Numbers, encode
    from sparsegp.settings import AUTO, settings_given

    named = shared.settings_of(options)
    settings = settings_given(**named)
    settings.require_used(named)
    train, held_out = training_tables(data, test, shared.given(options, shared.COLUMNS))
    train = train.learnt()
    if settings.is_regression:
        Numbers.of(train.y, train.source)  # refuses what are none
    n_classes = 0 if settings.is_regression else len(encode(train.y, train.source)[0])
    where, elsewhere = place(options)
    where |= {"block_rows": options["block_rows"], "scratch": options["scratch"]}
    where["source_bytes"] = memory.held_bytes(train.X)
    shape = memory.shape_of(train, held_out, n_classes, settings, **where)
    found, room = memory.estimate(shape), memory.room()
    need = "driver_bytes" if elsewhere and "driver_bytes" in found else "total_bytes"
    free = found["available_bytes"] = min(room.shared, room.own)
    found["fits"] = found[need] <= free
    if not found["fits"]:
        would = memory.remedies(shape, lambda other: bool(memory.estimate(other)[need] <= free))
        found["would_fit"] = [shared.as_typed(each) for each in would]
    found["seconds"] = seconds(found, settings, shape.n_workers or shape.n_threads)
    found["searches"] = settings.kernel == AUTO
    show([json_line(found)] if as_json else pairs(words(found)))


def seconds(found: dict[str, Any], settings: Any, threads: int) -> float:
    """Return roughly the seconds of a run; of a dense method those of one factorisation.

    Parameters
    ----------
    found : dict
        An estimate.
    settings : TrainSettings or DenseSettings
    threads : int
        Threads or workers that compute at a time.
    """
    speed = operations_per_second()
    if "flops" in found:
        return float(found["flops"] / speed)
    n, d, latent = found["rows"], found["n_active"], max(found["classes"], 1)
    selections = settings.major_steps + 1 if settings.learn == "evidence" else 1
    work = SELECTING * selections * (found["kernel_flops"] + found["stub_flops"])
    alone = 0.0  # of the driver
    if settings.posterior == "all":
        work += 2.0 * n * d**2 * found["kernels"] + ROUNDS * n * latent * (4.0 * d + A_ROW)
        alone = FACTORS * found["kernels"] * d**3
    return float(STARTING + (work / threads + alone) / speed)


def operations_per_second() -> float:
    """Return how many a thread of this machine does in products of matrices, roughly."""
    import time

    import numpy as np

    from sparsegp.blas import single_threaded_blas

    left, right = np.ones((256, 1000), np.float32), np.ones((1000, 256), np.float32)
    best, until = float("inf"), time.perf_counter() + TRIED_SECONDS
    with single_threaded_blas():
        while best == float("inf") or time.perf_counter() < until:
            began = time.perf_counter()
            left @ right
            best = min(best, time.perf_counter() - began)
    return 2.0 * left.size * 256 / best


def place(options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return how many processes or threads there are to be, and if workers are elsewhere."""
    from sparsegp.runtime.clusters import read_cluster_file
    from sparsegp.runtime.threads import usable_cpus

    where = shared.place({**options, "tls": None})["where"] or f"threads={usable_cpus()}"
    if options["cluster"] is not None:
        file = read_cluster_file(Path(where))
        return {"n_workers": file["workers"]}, not str(file.get("class")).endswith("LocalCluster")
    name, _, number = where.partition("=")
    if int(number) < 1:
        raise SettingsError(f"the number of {name} must be at least 1, got {number}")
    return {f"n_{name}": int(number)}, False


def words(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and values of an estimate."""
    held_out = f" and {found['held_out']} held out" if found.get("held_out") else ""
    labels = f"{found['classes']} classes" if found["classes"] else "a regression"
    rows, columns = plural(found["rows"], "row"), plural(found["columns"], "column")
    yield "data", f"{rows}{held_out}, {columns}, {labels}"
    flops = {name: found[name] for name in ("flops", "kernel_flops", "stub_flops") if name in found}
    each = ", ".join(f"{name.replace('_', ' ')} {count:.3g}" for name, count in flops.items())
    yield "products", f"{each}{' a factorisation' if 'flops' in flops else ''}"
    if "matrices" in found:
        workers = f", {found['matrices']} matrices of all rows"
    else:
        yield "active rows", f"{found['n_active']}, {plural(found['kernels'], 'kernel')}"
        yield "checkpoint", size(found["checkpoint_bytes"])
        for kind, parts in (("worker", "blocks"), ("driver", "driver")):
            listed = (f"{name} {size(count)}" for name, count in found[parts].items() if count > 1)
            yield kind, f"{size(found[f'{kind}_bytes'])}: {', '.join(listed)}"
        n_workers = found["n_workers"]
        workers = f" for {plural(n_workers, 'worker')} and driver" if n_workers else ""
    yield "memory", f"{size(found['total_bytes'])}{workers}"
    time_of = " for one factorisation" if "flops" in found else ""
    if found["searches"]:
        time_of = " besides once to three times that for the search for a kernel"
    yield "time", f"about {found['seconds']:.2g} s{time_of}, roughly, on such processors as here"
    free = f"the {size(found['available_bytes'])} that are free on this machine"
    would = ", or ".join(found.get("would_fit", ())) or "not even one active row"
    yield "fits", f"yes, in {free}" if found["fits"] else f"no: more than {free}; {would} would fit"
