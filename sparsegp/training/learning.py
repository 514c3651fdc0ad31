"""Learning kernel and likelihood by the evidence: major steps around the inner optimisation.

A major step selects the active rows anew at the present parameters; the parameters then go down on
the criterion while these rows stay (SLH section 3.3, learning/). In the end the rows are selected
once more, at the last parameters: criteria of different active rows cannot be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.interrupt import StopRequest
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.evidence_rows import Representation, RowSums
from sparsegp.ivm.rows import TILE
from sparsegp.learning import hyperpriors
from sparsegp.learning.objective import Objective, asking, parameter_names
from sparsegp.learning.optimise import descend
from sparsegp.types import Doubles

if TYPE_CHECKING:
    from sparsegp.training.run import Training


@dataclass
class Learnt:
    """What has been learnt so far.

    Attributes
    ----------
    parameters : Doubles (q,) or None
        Of the kernel, then of the likelihood; None before the first step.
    trace : list of dict
        For each major step: its criterion at the start and after every minor step, the number of
        evaluations, the kernel that came out, and the held-out figures of the rows it started with.
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
        objective = _objective(run, stop)
        path = descend(
            objective,
            objective.start,
            _sites(run),
            settings.strategy,
            settings.minor_steps,
        )
        kernel, likelihood = objective.model(path.parameters)
        learnt.trace.append(
            {
                **run.standing(),
                "criterion": path.values.tolist(),
                "evaluations": path.evaluations,
                "kernel": str(kernel),
                "likelihood": likelihood.to_json(),
            }
        )
        learnt.parameters = path.parameters
        run.active = ActiveSet()
        run.save()
        run.check(stop, f"{number + 1} of {settings.major_steps} steps of learning done")
    run.progress.update(settings.major_steps, **_figures(learnt.trace))
    run.progress.finish()
    run.restart(learnt.parameters)


def _objective(run: "Training", stop: StopRequest | None) -> Objective:
    """Return the criterion for the rows that are active now."""
    of, settings = run.block_settings, run.settings
    kernel, likelihood = of.kernels[0], of.likelihood
    names = parameter_names(kernel, likelihood)
    hyperprior = hyperpriors.parse(settings.hyperprior, names, run.data.summary.p)
    ask = asking(run.ask_training_blocks, run.data.summary.n, TILE, of.unit)

    def sum_rows(representation: Representation) -> list[RowSums]:
        run.check(stop, "a step of learning was cut short")
        return ask(representation)

    active = run.active
    return Objective(kernel, likelihood, active.x, active.target, sum_rows, hyperprior)


def _sites(run: "Training") -> Doubles:
    """Return precisions and shifts of the active rows, (2, d)."""
    assert isinstance(run.active, ActiveSet)  # one process: checked by the settings
    precision = run.active.precision[:, 0]
    return np.stack([precision, precision * run.active.site[:, 0]])


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
