"""Learn kernels and likelihood by the marginal likelihood: major steps around the optimisation.

A major step reselects the active rows with the current parameters; then the criterion is minimised
over the parameters for these rows (SLH section 3.3, learning/). As the criterion cannot be compared
between active sets, the paper takes the last parameters. With validation rows, the parameters whose
active rows predict them best, possibly the initial ones, are taken instead.

Checkpoints are written during a selection, and after each minimisation.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.fit.blocks import SparseRun
from sparsegp.ivm.evidence_rows import Process, RowSums, pieces
from sparsegp.learning import hyperpriors
from sparsegp.learning.evidence import Members
from sparsegp.learning.objective import Objective, parameter_names, with_parameters
from sparsegp.learning.optimise import Bounds, descend
from sparsegp.likelihoods.base import Likelihood
from sparsegp.math.products import TILE
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.types import Doubles

FARTHEST = 7.0
"""Largest distance of a parameter from its initial value, over all steps: for a logarithm, a factor
of 1100. Labels that are predicted without error would drive it to infinity."""


def learn(run: SparseRun) -> None:
    """Carry out the remaining major steps, and set the parameters that are chosen.

    Each step is recorded in `run.steps`: the criterion at the start and after every minor step, the
    number of evaluations, the resulting kernels and likelihood, and the initial parameters with the
    metrics of their active rows; `validation_nlpp` is the NLPP of the validation rows, `bounded`
    names the parameters that ended at a bound.

    Raises
    ------
    Interrupted
        If a stop was requested; the progress is in a checkpoint.
    """
    count, of = run.settings.major_steps, run.block_settings
    names = parameter_names(of.kernels, of.likelihood)
    # before rows are selected, as it may name parameters that the kernel does not have
    hyperprior = hyperpriors.parse(run.settings.hyperprior, names, run.data.summary.p)
    run.progress.start(count, "steps", "learn")
    _show_last(run)
    while len(run.steps) < count:
        _select(run)
        _descend(run, hyperprior)
        _show_last(run)
        run.checkpoint(run.done, due=True)
    if run.parameters is not None and "validation_nlpp" in run.steps[-1]:
        _select(run)
        tried = [(step["validation_nlpp"], step["start"]) for step in run.steps]
        tried.append((_validation_nlpp(run)["validation_nlpp"], run.parameters))
        run.take(np.asarray(min(tried, key=lambda entry: entry[0])[1], np.float64))
    run.in_step = False
    run.forget()
    run.progress.finish()


def _show_last(run: SparseRun) -> None:
    shown = {}
    if run.steps:
        last = run.steps[-1]
        shown = {"minus_log_evidence": float(last["criterion"][-1])}
        shown |= {name: last[name] for name in ("validation_nlpp",) if name in last}
    run.progress.update(len(run.steps), **shown)


def _select(run: SparseRun) -> None:
    """Select active rows with the current parameters, or continue from a checkpoint."""
    if not run.in_step:
        run.forget()
        run.in_step = True
    deque(run.include(every=run.n_active), maxlen=0)
    if not len(run.active):
        of = run.block_settings
        raise NumericalError(
            f"a step of learning needs rows with sites of precision above {run.settings.epsilon:g},"
            f" found none with kernel '{of.kernels[0]}' and likelihood {of.likelihood}; start from "
            "others, give a `hyperprior` or a smaller `epsilon`"
        )


def _descend(run: SparseRun, hyperprior: hyperpriors.Hyperprior) -> None:
    """Minimise the criterion for the current active rows, and record the step."""
    settings, active, of = run.settings, run.active, run.block_settings
    weight = None if run.weights is None else run.weights[active.rows]
    own = active.sites(of.n_latent)
    members, sites = Members.of_sites(active.x, active.target, *own, weight)
    spare = pieces(run.n_rows, TILE * of.unit).bit_length()

    def sum_rows(processes: Sequence[Process], likelihood: Likelihood) -> list[RowSums]:
        if run.stop.requested:
            run.checkpoint(run.done)
        answers = run.map_blocks("evidence", len(active), processes, likelihood, spare)
        return [answer for answer in answers if answer is not None]  # None: no row counts

    objective = Objective(of.kernels, of.likelihood, members, sum_rows, hyperprior)
    start = objective.start
    first = np.array(run.steps[0]["start"]) if run.steps else start
    bounds = first - FARTHEST, first + FARTHEST
    path = descend(objective, start, sites, settings.strategy, settings.minor_steps, bounds=bounds)
    kernels, likelihood = with_parameters(of.kernels, of.likelihood, path.parameters)
    run.steps.append(
        {
            **run.figures(),
            **_validation_nlpp(run),
            "start": start.tolist(),
            "criterion": path.values,
            "evaluations": path.evaluations,
            "kernel": "; ".join(map(str, kernels)),
            "likelihood": likelihood.to_json(),
            **_bounded(run, path.parameters, bounds),
        }
    )
    run.take(path.parameters)
    run.in_step, run.active = False, type(active)()


def _bounded(run: SparseRun, parameters: Doubles, bounds: Bounds) -> dict[str, list[str]]:
    """Return the names of parameters at their bounds, if any; show a message about new ones."""
    names = parameter_names(run.block_settings.kernels, run.block_settings.likelihood)
    at_bound = (parameters <= bounds[0]) | (parameters >= bounds[1])
    # length scales of several columns have one name
    found = list(dict.fromkeys(np.array(names)[at_bound].tolist()))
    former = {name for step in run.steps for name in step.get("bounded", ())}
    if new := [name for name in found if name not in former]:
        run.progress.message(
            f"learning took {', '.join(new)} as far as it may: {FARTHEST:g} from the start, in "
            "logarithms or, for biases and thresholds, latent units; a hyperprior keeps it "
            "nearer, another start of kernel or likelihood moves the bound"
        )
    return {"bounded": found} if found else {}


def _validation_nlpp(run: SparseRun) -> dict[str, float]:
    """Return the validation NLPP of the current active rows; empty without validation rows."""
    report = POSTERIORS["adf"](ActiveRows.of(run.block_settings, run.active), run).report
    return {name: report[name] for name in ("validation_nlpp",) if name in report}
