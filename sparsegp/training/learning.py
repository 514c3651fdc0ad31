"""Learning kernels and likelihood by the evidence: major steps around the inner optimisation.

A major step selects the active rows anew at the present parameters; the parameters then go down on
the criterion while these rows stay (SLH section 3.3, learning/). Criteria of different active rows
cannot be compared, so the paper takes the last parameters. Where rows were kept aside, those of the
step whose active rows tell them best are taken, the start included.

Checkpoints are written after every major step, on the way of a selection, and of what was evaluated
since (learning/record.py).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.interrupt import StopRequest
from sparsegp.ivm.rows import TILE
from sparsegp.learning import hyperpriors
from sparsegp.learning.evidence import Members
from sparsegp.learning.objective import Objective, asking, parameter_names
from sparsegp.learning.optimise import Bounds, descend
from sparsegp.learning.record import Record, Recorded
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.training.rows import TrainingRows
from sparsegp.types import Doubles

if TYPE_CHECKING:
    from sparsegp.training.run import Training


FARTHEST = 7.0
"""How far a parameter may go in all steps together: for a logarithm, a factor of 1100. Labels that
can be told without error would take it to infinity."""

SHARE = 0.05
"""Of the time of evaluations, what checkpoints on the way may take."""


@dataclass
class Learnt:
    """What has been learnt so far.

    Attributes
    ----------
    parameters : Doubles (q,) or None
        Of one kernel after the other, then of the likelihood; None before the first step.
    trace : list of dict
        For each major step: its criterion at the start and after every minor step, the number of
        evaluations, kernels and likelihood that came out, and the parameters and figures of the
        rows it started with; `aside_nlpp` is that of the rows kept aside, `bounded` names what
        ended as far from where the run began as it may go.
    record : Record or None
        What the step that is under way has evaluated; None between steps.
    """

    parameters: Doubles | None = None
    trace: list[dict[str, Any]] = field(default_factory=list)
    record: Record | None = None

    @property
    def under_way(self) -> bool:
        """Whether a step has begun: the active rows are its own."""
        return self.record is not None

    def arrays(self) -> dict[str, Any]:
        """Return what goes into a checkpoint beside the trace."""
        found = {} if self.parameters is None else {"learnt": self.parameters}
        return found if self.record is None else found | self.record.arrays()

    @classmethod
    def from_checkpoint(
        cls, arrays: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> "Learnt":
        """Restore what a checkpoint held."""
        steps = [dict(step) for step in trace]
        return cls(arrays.get("learnt"), steps, Record.from_arrays(arrays))


def learn(run: "Training", stop: StopRequest | None) -> None:
    """Make the major steps that are left.

    Raises
    ------
    Interrupted
        If `stop` was requested; what was done is in a checkpoint.
    """
    settings, learnt = run.settings, run.learnt
    run.progress.start(settings.major_steps, "steps", "learn")
    for number in range(len(learnt.trace), settings.major_steps):
        run.progress.update(number, **_figures(learnt.trace))
        _select(run, stop)
        _step(run, stop)
        run.check(stop, f"{number + 1} of {settings.major_steps} steps of learning done")
    run.progress.update(settings.major_steps, **_figures(learnt.trace))
    learnt.parameters, learnt.record = _best(run, stop), None
    run.restart(learnt.parameters)
    run.progress.finish()


def _select(run: "Training", stop: StopRequest | None) -> None:
    """Select at the last parameters, or go on where a checkpoint was written.

    Raises
    ------
    NumericalError
        If no row may be included.
    """
    if run.learnt.record is None:
        run.restart(run.learnt.parameters)
        run.learnt.record = Record()
    selection, saved = run.selection(), len(run.active)
    while len(run.active) < run.n_active and selection.round(run.n_active):
        stopping = stop is not None and bool(stop.requested)
        if stopping or len(run.active) // run.checkpoint_every > saved // run.checkpoint_every:
            run.save()
            saved = len(run.active)
        if stopping:
            run.check(stop, "a step of learning was cut short")
    if not len(run.active):
        of = run.block_settings
        raise NumericalError(
            f"a step of learning needs rows with sites of precision above {run.settings.epsilon:g},"
            f" found none with kernel '{of.kernels[0]}' and likelihood {of.likelihood}; start from "
            "others, give a --hyperprior or a smaller --epsilon"
        )


def _step(run: "Training", stop: StopRequest | None) -> None:
    """Go down on the criterion of the rows that are active now, and write down how that went."""
    settings, learnt, active = run.settings, run.learnt, run.active
    assert learnt.record is not None  # selected
    members, sites = Members.of_sites(
        active.x, active.target, *active.sites(run.block_settings.n_latent)
    )
    objective = _objective(run, members)
    start, bounds = objective.start, _bounds(learnt.trace, objective.start)
    problem = Recorded(objective, learnt.record, Saver(run, stop))
    path = descend(problem, start, sites, settings.strategy, settings.minor_steps, bounds=bounds)
    kernels, likelihood = objective.model(path.parameters)
    learnt.trace.append(
        {
            **run.standing(),
            **_aside(run, stop),
            "start": start.tolist(),
            "criterion": path.values.tolist(),
            "evaluations": path.evaluations,
            "kernel": "; ".join(map(str, kernels)),
            "likelihood": likelihood.to_json(),
            **_bounded(run, path.parameters, bounds),
        }
    )
    learnt.parameters, learnt.record = path.parameters, None
    run.active = run.kind.active()
    run.save()


def _bounds(trace: Sequence[Mapping[str, Any]], start: Doubles) -> Bounds:
    """Return where all parameters of a run must stay, given those that a step starts from."""
    first = np.array(trace[0]["start"]) if trace else start
    return first - FARTHEST, first + FARTHEST


def _bounded(run: "Training", parameters: Doubles, bounds: Bounds) -> dict[str, list[str]]:
    """Return which parameters are at their bounds, if any; tell it when that is new."""
    of, (low, high) = run.block_settings, bounds
    names = parameter_names(of.kernels, of.likelihood)
    outermost = (parameters <= low) | (parameters >= high)
    some = [name for name, is_there in zip(names, outermost, strict=True) if is_there]
    found = list(dict.fromkeys(some))  # length scales of several columns have one name
    former = {name for step in run.learnt.trace for name in step.get("bounded", ())}
    if new := [name for name in found if name not in former]:
        run.progress.message(
            f"learning took {', '.join(new)} as far as it may: {FARTHEST:g} from the start, in "
            "logarithms or, for biases and thresholds, latent units; a --hyperprior keeps it "
            "nearer, another start of kernel or likelihood moves the bound"
        )
    return {"bounded": found} if found else {}


class Saver:
    """Writes checkpoints between evaluations, which take a small share of their time.

    Parameters
    ----------
    run : Training
    stop : StopRequest, optional
    """

    def __init__(self, run: "Training", stop: StopRequest | None) -> None:
        self.run, self.stop = run, stop
        self.ended, self.taken = time.monotonic(), 0.0

    def __call__(self) -> None:
        """Write a checkpoint if that is due, or before a stop.

        Raises
        ------
        Interrupted
            If a stop was requested.
        """
        begun = time.monotonic()
        stopping = self.stop is not None and bool(self.stop.requested)
        if stopping or self.taken <= SHARE * (begun - self.ended):
            assert self.run.learnt.record is not None  # of these evaluations
            self.run.save(len(self.run.learnt.record))
            self.ended = time.monotonic()
            self.taken = self.ended - begun
        if stopping:
            self.run.check(self.stop, "a step of learning was cut short")


def _aside(run: "Training", stop: StopRequest | None) -> dict[str, float]:
    """Return the nlpp of the rows kept aside by the rows that are active now, if there are any."""
    active = ActiveRows.of(run.block_settings, run.active)
    report = POSTERIORS["adf"].make(active, TrainingRows(run, stop)).report
    return {"aside_nlpp": report["aside_nlpp"]} if "aside_nlpp" in report else {}


def _best(run: "Training", stop: StopRequest | None) -> Doubles | None:
    """Return the parameters that are taken."""
    trace, last = run.learnt.trace, run.learnt.parameters
    if last is None or "aside_nlpp" not in trace[-1]:
        return last
    _select(run, stop)
    tried = [(step["aside_nlpp"], step["start"]) for step in trace]
    tried.append((_aside(run, stop)["aside_nlpp"], last))
    return np.asarray(min(tried, key=lambda entry: entry[0])[1], np.float64)


def _objective(run: "Training", members: Members) -> Objective:
    """Return the criterion for the rows that are active now."""
    of, settings = run.block_settings, run.settings
    names = parameter_names(of.kernels, of.likelihood)
    hyperprior = hyperpriors.parse(settings.hyperprior, names, run.data.summary.p)
    ask = asking(run.ask_training_blocks, len(run.active), run.data.summary.n, TILE, of.unit)
    return Objective(of.kernels, of.likelihood, members, ask, hyperprior)


def _figures(trace: list[dict[str, Any]]) -> dict[str, float]:
    """Return what progress shows of the last step."""
    if not trace:
        return {}
    last = trace[-1]
    figures = {"criterion": float(last["criterion"][-1])}
    for name in ("heldout_error", "heldout_mse"):
        if name in last:
            figures[name] = float(last[name])
    return figures
