"""A fit of a dense method: the rows in memory, the kernels learnt, the posterior of all rows."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp import memory
from sparsegp.data import Table
from sparsegp.dense import Mixture, Problem, Session, Status, infer
from sparsegp.fit.run import Content, Run, below
from sparsegp.ivm.rows import TILE
from sparsegp.model import DenseModel
from sparsegp.settings import DenseSettings
from sparsegp.state import to_arrays
from sparsegp.types import Doubles


@dataclass(eq=False)
class DenseRun(Run):
    """One fit; parameters are those of `Run`.

    Attributes
    ----------
    x : Doubles (n, p)
        Scaled inputs.
    former : mapping
        Arrays that the method had reached before it was interrupted, or empty.
    """

    settings: DenseSettings

    x: Doubles = field(init=False)
    former: Mapping[str, NDArray[Any]] = field(init=False, default_factory=dict)
    _total: int = field(init=False, default=-1)
    _state: Any = field(init=False, default=None)

    def require_room(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Refuse more rows than memory can hold."""
        del held_out  # predicted a few at a time
        shape = memory.shape_of(rows, None, n_classes, self.settings)
        memory.check(shape, self.runtime)

    def build(self) -> None:
        """Read the rows, and go to the state of the newest checkpoint."""
        self.x = self.data.scaling.apply(np.asarray(self.data.train.X), np.dtype(np.float64))
        self.digests = digests(self.x, self.data.target)
        stored = self.restored()
        if stored is not None:
            self.former = below("state.", stored.arrays)
        self.begin()

    def make_model(self) -> DenseModel:
        """Fit, and return the model."""
        settings, data = self.settings, self.data
        likelihood = settings.choose_likelihood(len(data.classes))
        n_latent = likelihood.n_latent(len(data.classes))
        kernels = settings.kernels(n_latent, data.scaled_variances)
        problem = Problem(
            self.x,
            data.target,
            kernels,
            likelihood,
            n_latent,
            settings.seed,
            settings.learns_likelihood,
        )
        found = infer(
            settings.build_method(),
            problem,
            settings.learn,
            settings.hyperprior,
            settings.steps,
            Session(self.former, self._report, self._run_tasks),
        )
        self.progress.finish()
        model = DenseModel(
            rows=np.arange(len(self.x)),
            classes=data.classes,
            scaling=data.scaling,
            settings=settings.to_json(),
            numbers=data.numbers,
            names=data.train.names,
            mixture=Mixture(found.components, self.x, settings.averaged),
            log_evidence=found.log_evidence,
            notes={**found.report, "trace": [dict(step) for step in found.trace]},
        )
        model = replace(model, history=[self._point(model)])
        self.keep(model)
        return model

    def _report(self, status: Status, state: Any) -> None:
        """Show progress, and write a checkpoint if one is due; `Interrupted` on a stop."""
        if status.total != self._total:
            self._total = status.total
            learn, method = self.settings.learn, self.settings.method
            stage = method if learn == "none" else f"{learn} of {method}"
            self.progress.start(status.total, "steps", stage)
        self.progress.update(status.done, **status.figures)
        self._state = state
        if not status.finished:
            self.checkpoint(status.done, f"in step {status.done}")

    def _run_tasks(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> list[Any]:
        """Return the results of tasks that run side by side on the runtime."""
        found = dict(self.runtime.run_tasks(function, shared, tasks))
        return [found[number] for number in range(len(tasks))]

    def content(self) -> Content:
        """Return what a checkpoint holds."""
        return {}, {f"state.{name}": array for name, array in to_arrays(self._state).items()}

    def _point(self, model: DenseModel) -> dict[str, float]:
        """Return the one point of the learning curve: figures of training and held-out rows."""
        data, point = self.data, {"n_active": len(model.rows), "seconds": round(self.seconds(), 3)}
        point |= standing("train", model, data.train, data.target)
        if data.held_out is not None:
            point |= standing("heldout", model, data.held_out, data.held_out_target)
        return point


def standing(part: str, model: DenseModel, table: Table, target: Any) -> dict[str, float]:
    """Return error, or mean squared error, and nlpp of rows, as a learning curve has them."""
    X = np.asarray(table.X)
    if model.numbers is not None:
        mean, variance = model.predictive_mean_and_variance(X)
        y = model.numbers.decode(target)
        squares = np.square(y - mean)
        nlpp = 0.5 * float(np.mean(squares / variance + np.log(2.0 * np.pi * variance)))
        return {f"{part}_mse": float(squares.mean()), f"{part}_nlpp": nlpp}
    log_p, known = model.predict_log_proba(X), target >= 0
    found = {f"{part}_error": float(np.mean(log_p.argmax(axis=1) != target))}
    if known.any():
        own = np.take_along_axis(log_p[known], target[known, np.newaxis], axis=1)
        found[f"{part}_nlpp"] = -float(own.mean())
    return found


def digests(x: Doubles, target: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a digest of every `TILE` rows, by which a resumed run knows its data."""
    rows = np.concatenate([x, np.asarray(target, np.float64)[:, np.newaxis]], axis=1)
    parts = (rows[start : start + TILE] for start in range(0, len(rows), TILE))
    each = [hashlib.blake2b(np.ascontiguousarray(part).tobytes(), digest_size=8) for part in parts]
    return np.array([int.from_bytes(digest.digest()) for digest in each], dtype=np.uint64)
