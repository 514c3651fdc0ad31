"""Options that commands share. Those that are not given leave the API its own defaults."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]

SETTINGS: dict[str, Callable[[Any], Any]] = {
    "n_active": click.option(
        "--n-active", type=int, metavar="N", help="Rows to include.  [all, at most 1000]"
    ),
    "kernel": click.option(
        "--kernel",
        metavar="TEXT",
        help="Kernel, such as '10*rbf(5)', '2*rbf + 0.1*linear'; a length scale left out is "
        "chosen from the data.  [50*rbf + 50*matern52]",
    ),
    "kernel_per_class": click.option(
        "--kernel-per-class",
        is_flag=True,
        default=None,
        help="One kernel a class; --kernel may name them all, separated by semicolons.",
    ),
    "criterion": click.option(
        "--criterion",
        metavar="NAME",
        help="What makes a row worth including: predictive, its label is unlikely; residual, so it "
        "is to the posterior of all rows (panels of 2 or more only); information, what it would "
        "change; entropy, what it would make certain; random.  [predictive]",
    ),
    "posterior": click.option(
        "--posterior",
        metavar="NAME",
        help="adf: sites as set at inclusion; active: iterated to convergence; all: by all rows.  "
        "[all]",
    ),
    "likelihood": click.option(
        "--likelihood",
        metavar="NAME",
        help="multinomial_probit, or, with sites=moments: probit or logistic (two classes), "
        "ordered_probit, softmax, gaussian (regression), also with numbers, such as "
        "'probit(-1.5)'.  [multinomial_probit]",
    ),
    "sites": click.option(
        "--sites",
        metavar="NAME",
        help="How the likelihood of an active row becomes Gaussian: variational or moments.  "
        "[variational]",
    ),
    "active_per_class": click.option(
        "--active-per-class",
        is_flag=True,
        default=None,
        help="An active set for every class, with sites=moments; --n-active counts pairs.",
    ),
    "epsilon": click.option(
        "--epsilon",
        type=float,
        metavar="PI",
        help="With sites=moments: least precision of the site of a row to be included.  [1e-08]",
    ),
    "learn": click.option(
        "--learn",
        metavar="NAME",
        help="none, or evidence: kernels and likelihood by the evidence, with sites=moments.  "
        "[none]",
    ),
    "major_steps": click.option(
        "--major-steps",
        type=int,
        metavar="N",
        help="With --learn: times that rows are selected anew.  [15]",
    ),
    "minor_steps": click.option(
        "--minor-steps",
        type=int,
        metavar="N",
        help="With --learn: line searches between two selections, at most.  [8]",
    ),
    "strategy": click.option(
        "--strategy",
        metavar="NAME",
        help="With --learn: what sites do between two selections: constant, hybrid, exact or "
        "whole.  [constant]",
    ),
    "hyperprior": click.option(
        "--hyperprior",
        metavar="TEXT",
        help="With --learn: prior densities, such as 'v: lognormal(-1, 1); bias: normal(0, 25)'; "
        "none if left out.",
    ),
    "stub_entries": click.option(
        "--stub-entries",
        type=int,
        metavar="N",
        help="Bound on candidates times active rows: candidates get fewer on the way. For the "
        "posteriors adf and active.",
    ),
    "shrink_every": click.option(
        "--shrink-every",
        type=int,
        metavar="N",
        help="With --stub-entries: inclusions between two thinnings of the candidates.  [100]",
    ),
    "keep_best": click.option(
        "--keep-best",
        type=float,
        metavar="SHARE",
        help="With --stub-entries: share kept by score; the others are drawn at random.  [0.5]",
    ),
    "scaling": click.option(
        "--scaling", metavar="NAME", help="Of inputs: auto, standard, range or none.  [auto]"
    ),
    "precision": click.option(
        "--precision", metavar="NAME", help="Of the large arrays: float32 or float64.  [float32]"
    ),
    "panel": click.option(
        "--panel",
        type=int,
        metavar="Q",
        help="Rows included between two scorings.  "
        "[16 for posterior all or criterion residual, else 1]",
    ),
    "lookahead": click.option(
        "--lookahead",
        type=int,
        metavar="Q",
        help="Rows tried between two questions to the row blocks; changes no result.  [56]",
    ),
    "lazy": click.option(
        "--no-lazy",
        "lazy",
        flag_value=False,
        type=bool,
        default=None,
        help="Evaluate all scores in every round; changes no result.",
    ),
    "tolerance": click.option(
        "--tolerance",
        type=float,
        metavar="NATS",
        help="Of posterior all: least gain of a round, for a row.  [0.0001]",
    ),
    "calibration": click.option(
        "--calibration",
        metavar="NAME",
        help="Of posterior all: learned from rows kept aside, or none.  [learned]",
    ),
    "n_nodes": click.option("--n-nodes", type=int, metavar="N", help="Quadrature nodes.  [12]"),
    "report_every": click.option(
        "--report-every",
        type=int,
        metavar="N",
        help="Inclusions between two points of the learning curve.  [100]",
    ),
    "seed": click.option("--seed", type=int, metavar="N", help="Key of whatever is random.  [0]"),
}
"""Options of the fields of `TrainSettings`. A test compares the defaults shown with theirs."""

MEMORY: dict[str, Callable[[Any], Any]] = {
    "stub_memory": click.option(
        "--stub-memory",
        metavar="SIZE",
        help="--stub-entries by their bytes: 4GB, 500MB, 2GiB.",
    ),
}
"""Settings said in other units."""

DENSE: dict[str, Callable[[Any], Any]] = {
    "method": click.option(
        "--method",
        metavar="NAME",
        help="ivm, on a few active rows; or one that takes all rows, a few thousand at most, in "
        "O(n^3): laplace, ep, variational, gibbs, exact (regression), also with options, such as "
        "'ep(damping=0.5)'.  [ivm]",
    ),
    "steps": click.option(
        "--steps",
        type=int,
        metavar="N",
        help="With --method and --learn: line searches of evidence, or draws of each chain of "
        "hmc.  [100]",
    ),
    "averaged": click.option(
        "--map",
        "averaged",
        flag_value=False,
        type=bool,
        default=None,
        help="With --method: probabilities at the mean of the latent values, not averaged over "
        "them.",
    ),
}
"""Options of those fields of `DenseSettings` that `TrainSettings` has not."""

TASK: dict[str, Callable[[Any], Any]] = {
    "task": click.option(
        "--task",
        metavar="NAME",
        help="classification, or regression: labels are numbers, --likelihood is gaussian.  "
        "[classification]",
    ),
}
"""What is to be learnt: no setting of its own, as the likelihood tells it."""

WHERE: dict[str, Callable[[Any], Any]] = {
    "threads": click.option(
        "--threads", type=int, metavar="N", help="Threads of this process.  [all processors]"
    ),
    "workers": click.option(
        "--workers", type=int, metavar="N", help="Start so many processes on this machine."
    ),
    "scheduler": click.option(
        "--scheduler", metavar="ADDRESS", help="Use a running dask scheduler."
    ),
    "scheduler_file": click.option(
        "--scheduler-file", metavar="FILE", help="Use the dask scheduler that wrote this file."
    ),
    "tls": click.option(
        "--tls", metavar="DIR", help="Certificate of that scheduler, see `sparsegp certificate`."
    ),
    "cluster": click.option(
        "--cluster", metavar="FILE", help="Use or start the cluster that a YAML file describes."
    ),
}
"""Options of where the row blocks live."""

REACH = {name: WHERE[name] for name in ("scheduler", "scheduler_file", "tls", "cluster")}
"""Those of them that name a scheduler which may outlive the command."""

TUNING: dict[str, Callable[[Any], Any]] = {
    "max_trials": click.option(
        "--max-trials", type=int, metavar="N", help="Trials of a tuning, in all.  [40]"
    ),
    "max_seconds": click.option(
        "--max-seconds",
        type=float,
        metavar="S",
        help="Begin no trial of a tuning after so many seconds. The best of the last subsample "
        "that was completed wins: the choice then depends on the time.",
    ),
}
"""Options of the limits of a tuning."""

label_column = click.option(
    "--label-column",
    metavar="NAME|INDEX",
    help="Labels in a text or parquet file: a name, or a number from 0, or from the end if "
    "negative.  [-1]",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on the last line."
)


def settings_options(function: F) -> F:
    """Add all options of `SETTINGS`, and those of `MEMORY`."""
    return add_family(SETTINGS | MEMORY, function)


def dense_options(function: F) -> F:
    """Add all options of `DENSE`."""
    return add_family(DENSE, function)


def task_option(function: F) -> F:
    """Add the option of `TASK`."""
    return add_family(TASK, function)


def where_options(function: F) -> F:
    """Add all options of `WHERE`."""
    return add_family(WHERE, function)


def reach_options(function: F) -> F:
    """Add all options of `REACH`."""
    return add_family(REACH, function)


def tuning_options(function: F) -> F:
    """Add all options of `TUNING`."""
    return add_family(TUNING, function)


def given(options: dict[str, Any], *families: dict[str, Any]) -> dict[str, Any]:
    """Return those options of some families that were given.

    Raises
    ------
    SettingsError
        If a size cannot be read, or is given twice.
    """
    names = [name for family in families for name in family]
    found = {name: options[name] for name in names if options.get(name) is not None}
    if "stub_entries" in names and options.get("stub_memory") is not None:
        found["stub_entries"] = stub_entries(options["stub_memory"], found)
    return found


def stub_entries(size: str, settings: dict[str, Any]) -> int:
    """Return how many stub entries fit so many bytes.

    Raises
    ------
    SettingsError
        If the size cannot be read, or entries are given too.
    """
    from sparsegp.errors import SettingsError
    from sparsegp.execution.memory import read_size
    from sparsegp.settings import TrainSettings

    if "stub_entries" in settings:
        raise SettingsError("give only one of --stub-entries and --stub-memory")
    try:
        found = read_size(size)
    except ValueError:
        raise SettingsError(
            f"--stub-memory must be a size such as 4GB or 500MB, got {size!r}"
        ) from None
    precision = settings.get("precision", TrainSettings.precision)
    return found // TrainSettings(precision=precision).dtype.itemsize


def add_family(family: dict[str, Callable[[Any], Any]], function: F) -> F:
    """Add all options of a family."""
    for option in reversed(family.values()):
        function = option(function)
    return function
