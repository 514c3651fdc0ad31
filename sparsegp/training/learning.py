"""Learning kernels and likelihood by the evidence: major steps around the inner optimisation.

A major step selects the active rows anew at the present parameters; the parameters then go down on
the criterion while these rows stay (SLH section 3.3, learning/). Criteria of different active rows
cannot be compared, so the paper takes the last parameters. Where rows were kept aside, those of the
step whose active rows tell them best are taken, the start included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.interrupt import StopRequest
from sparsegp.ivm.evidence_rows import Representation, RowSums
from sparsegp.ivm.rows import TILE
from sparsegp.learning import hyperpriors
from sparsegp.learning.evidence import Members
from sparsegp.learning.objective import Objective, asking, parameter_names
from sparsegp.learning.optimise import descend
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.training.rows import TrainingRows
from sparsegp.types import Doubles

if TYPE_CHECKING:
    from sparsegp.training.run import Training


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
        rows it started with; `aside_nlpp` is that of the rows kept aside.
    """

    parameters: Doubles | None = None
    trace: list[dict[str, Any]] = field(default_factory=list)

    def arrays(self) -> dict[str, Any]:
        """Return what goes into a checkpoint beside the trace."""
        return {} if self.parameters is None else {"learnt": self.parameters}

    @classmethod
    def from_checkpoint(
        cls, arrays: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> "Learnt":
        """Restore what a checkpoint held."""
        return cls(arrays.get("learnt"), [dict(step) for step in trace])


def learn(run: "Training", stop: StopRequest | None) -> None:
    """Make the major steps that are left, with a checkpoint after each.

    Raises
    ------
    Interrupted
        If `stop` was requested; the steps that were completed are in a checkpoint.
    """
    settings, learnt = run.settings, run.learnt
    run.progress.start(settings.major_steps, "steps", "learn")
    for number in range(len(learnt.trace), settings.major_steps):
        run.progress.update(number, **_figures(learnt.trace))
        run.restart(learnt.parameters)
        run.include(stop)
        active = run.active
        members, sites = Members.of_sites(
            active.x, active.target, *active.sites(run.block_settings.n_latent)
        )
        objective = _objective(run, members, stop)
        start = objective.start
        path = descend(objective, start, sites, settings.strategy, settings.minor_steps)
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
            }
        )
        learnt.parameters = path.parameters
        run.active = run.kind.active()
        run.save()
        run.check(stop, f"{number + 1} of {settings.major_steps} steps of learning done")
    run.progress.update(settings.major_steps, **_figures(learnt.trace))
    run.restart(learnt.parameters)
    learnt.parameters = _best(run, stop)
    run.restart(learnt.parameters)
    run.progress.finish()


def _aside(run: "Training", stop: StopRequest | None) -> dict[str, float]:
    """Return the nlpp of the rows kept aside by the rows that are active now, if there are any."""
    active = ActiveRows.of(run.block_settings, run.active)
    report = POSTERIORS["adf"].make(active, TrainingRows(run, stop)).report
    return {"aside_nlpp": report["aside_nlpp"]} if "aside_nlpp" in report else {}


def _best(run: "Training", stop: StopRequest | None) -> Doubles | None:
    """Return the parameters that are taken; the blocks are at the last ones."""
    trace, last = run.learnt.trace, run.learnt.parameters
    if last is None or "aside_nlpp" not in trace[-1]:
        return last
    run.include(stop)
    tried = [(step["aside_nlpp"], step["start"]) for step in trace]
    tried.append((_aside(run, stop)["aside_nlpp"], last))
    return np.asarray(min(tried, key=lambda entry: entry[0])[1], np.float64)


def _objective(run: "Training", members: Members, stop: StopRequest | None) -> Objective:
    """Return the criterion for the rows that are active now."""
    of, settings = run.block_settings, run.settings
    names = parameter_names(of.kernels, of.likelihood)
    hyperprior = hyperpriors.parse(settings.hyperprior, names, run.data.summary.p)
    ask = asking(run.ask_training_blocks, len(run.active), run.data.summary.n, TILE, of.unit)

    def sum_rows(representation: Representation) -> list[RowSums]:
        run.check(stop, "a step of learning was cut short")
        return ask(representation)

    return Objective(of.kernels, of.likelihood, members, sum_rows, hyperprior)


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
