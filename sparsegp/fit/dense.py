"""Fit by a dense method: all rows in memory, learnt kernels, and the posterior of all rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsegp.data import Table
from sparsegp.dense import Mixture, Problem, Session, Status, infer, likelihood_for
from sparsegp.fit.run import Run
from sparsegp.model import DenseModel
from sparsegp.report import evaluate, evaluate_regression
from sparsegp.settings import DenseSettings


@dataclass(eq=False)
class DenseRun(Run[DenseModel]):
    """One fit by a dense method; parameters are those of `Run`."""

    settings: DenseSettings

    def build(self) -> None:
        """Read the rows, and restore the state of the newest checkpoint."""
        data, self._total = self.data, -1
        # scaled inputs (n, p)
        self.x = data.scaling.apply(np.asarray(data.train.X), np.dtype(np.float64))
        self.restored()

    def complete(self) -> DenseModel:
        """Fit, and return the model."""
        settings, data = self.settings, self.data
        method = settings.build_method()
        likelihood = likelihood_for(type(method), len(data.classes), settings.likelihood)
        n_latent = likelihood.n_latent(len(data.classes))
        problem = Problem(
            self.x,
            data.target,
            settings.kernels(n_latent, data.scaled_variances),
            likelihood,
            n_latent,
            settings.seed,
            settings.is_regression and settings.learn == "evidence",  # not sampled by hmc
        )
        found = infer(
            method,
            problem,
            settings.learn,
            settings.hyperprior,
            settings.steps,
            Session(self.former, self._report, self._run_tasks),
        )
        self.progress.finish()
        has_evidence = not np.isnan(found.log_evidence)
        evidence = {"log_evidence": found.log_evidence} if has_evidence else {}
        model = DenseModel(
            rows=np.arange(len(self.x)),
            settings=settings.to_json(),
            **data.model_fields,
            mixture=Mixture(found.components, self.x, settings.averaged),
            notes={**evidence, **found.report, "trace": [dict(step) for step in found.trace]},
        )
        self.progress.start(0, "rows", "evaluate")  # slow with many samples
        point = {"n_active": len(self.x), "seconds": round(self.seconds(), 3)}
        point |= figures("train", model, data.train, data.target)
        if data.held_out is not None:
            point |= figures("heldout", model, data.held_out, data.held_out_target)
        self.progress.update(len(self.x))
        self.progress.finish()
        return self.save(replace(model, history=[point]))

    def _report(self, status: Status, state: Any) -> None:
        """Show progress, and write a checkpoint if one is due; raise Interrupted on a stop."""
        if status.total != self._total:
            self._total = status.total
            learn, method = self.settings.learn, self.settings.method
            stage = method if learn == "none" else f"{learn} of {method}"
            self.progress.start(status.total, "steps", stage)
        self.progress.update(status.done, **status.figures)
        self.state = state
        if not status.finished:
            self.checkpoint(status.done)

    def _run_tasks(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> list[Any]:
        """Run tasks in parallel on the runtime, and return their results in order."""
        found = dict(self.runtime.run_tasks(function, shared, tasks))
        return [found[number] for number in range(len(tasks))]


def figures(part: str, model: DenseModel, table: Table, target: Any) -> dict[str, float]:
    """Return error, or mean squared error, and NLPP of rows, named as in a learning curve."""
    X = np.asarray(table.X)
    if model.numbers is not None:
        y = model.numbers.decode(target)
        judged = evaluate_regression(*model.predictive_mean_and_variance(X), y)
        return {f"{part}_mse": judged.mse, f"{part}_nlpp": judged.nlpp}
    found = evaluate(model.predict_log_proba(X), target, model.classes)
    nlpp = {f"{part}_nlpp": found.nlpp} if found.n_unseen < found.n else {}
    return {f"{part}_error": found.error, **nlpp}
