"""One run of a dense method: the rows in memory, the kernels learnt, the posterior of all rows."""

import hashlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsegp.data import Table
from sparsegp.dense import Alone, Fit, Mixture, Problem
from sparsegp.dense.learning import maximise
from sparsegp.dense.sampling import Schedule, kernel_prior, sample
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import Runtime
from sparsegp.execution.memory import free_memory
from sparsegp.interrupt import StopRequest
from sparsegp.ivm.rows import TILE
from sparsegp.model import DenseModel, Model
from sparsegp.run_directory import RunDirectory, require_same_rows
from sparsegp.settings import DenseSettings
from sparsegp.training.prepare import prepare
from sparsegp.training.progress import Progress
from sparsegp.types import Doubles

SAVE_SECONDS = 20.0
"""Least time between two checkpoints."""


class DenseRun:
    """One run, which follows its method as a `dense.Watch`.

    Parameters
    ----------
    train : Table
    settings : DenseSettings
    held_out : Table, optional
        Labelled rows that are predicted at the end, and take no part in it.
    runtime : Runtime
        Where independent pieces of the method run side by side.
    directory : RunDirectory, optional
    resume : bool
    progress : Progress
    stop : StopRequest, optional
    save_seconds : float
        Least time between two checkpoints.
    """

    def __init__(
        self,
        train: Table,
        settings: DenseSettings,
        *,
        held_out: Table | None,
        runtime: Runtime,
        directory: RunDirectory | None,
        resume: bool,
        progress: Progress,
        stop: StopRequest | None = None,
        save_seconds: float = SAVE_SECONDS,
    ) -> None:
        self.settings, self.runtime, self.progress = settings, runtime, progress
        self.directory, self.resume, self.stop = directory, resume, stop
        self.save_seconds = save_seconds
        numeric = settings.is_regression
        self.data = prepare(train, held_out, settings.scaling, runtime, numeric)
        self.former: Mapping[str, NDArray[Any]] = {}
        self.seconds, self._stage, self._saves = 0.0, "", 0
        self._started = self._saved = time.monotonic()
        self._total = -1
        self._digests: NDArray[np.uint64] = np.empty(0, np.uint64)
        require_memory(self.data.summary.n, len(self.data.classes), settings)

    def train(self) -> Model:
        """Return the fitted model, which is saved where there is a directory.

        Raises
        ------
        Interrupted
            If a stop was requested; what was reached is in a checkpoint.
        """
        with ExitStack() as stack:
            stack.enter_context(threadpool_limits(1))  # the same bits on any number of processors
            if self.directory is None:
                return self._train()
            stack.callback(self.directory.close)
            run = {"settings": self.settings.to_json(), "data": self.data.to_json()}
            self.directory.open(run, self.resume)
            if self.resume and self.directory.is_finished():
                self.progress.message(f"the run in {self.directory.path} is finished")
                return Model.load(self.directory.model_path)
            model = self._train()
            self.directory.check_held()
            model.save(self.directory.model_path)
            return model

    def _train(self) -> DenseModel:
        x = self.data.scaling.apply(np.asarray(self.data.train.X), np.dtype(np.float64))
        self._digests = digests(x, self.data.target)
        if self.directory is not None and self.resume:
            self._restore(self.directory)
        count, settings = len(self.data.classes), self.settings
        likelihood = settings.choose_likelihood(count)
        n_latent = likelihood.n_latent(count)
        kernels = settings.kernels(n_latent, self.data.scaled_variances)
        problem = Problem(
            x,
            self.data.target,
            kernels,
            likelihood,
            n_latent,
            settings.seed,
            settings.learns_likelihood,
        )
        fit = self._fit(problem)
        self.progress.finish()
        mixture = Mixture(fit.components, x, settings.averaged)
        model = DenseModel(
            rows=np.arange(len(x)),
            classes=self.data.classes,
            scaling=self.data.scaling,
            settings=settings.to_json(),
            numbers=self.data.numbers,
            mixture=mixture,
            log_evidence=fit.log_evidence,
            notes={**fit.report, "trace": [dict(step) for step in fit.trace]},
        )
        return replace(model, history=[self._point(model)])

    def _fit(self, problem: Problem) -> Fit:
        """Learn the kernels, if that is asked for, and make the posterior."""
        settings, method = self.settings, self.settings.build_method()
        if settings.learn == "none":
            self._begin(settings.method)
            return method.fit(problem, self)
        prior = kernel_prior(settings.hyperprior, problem)
        self._begin(f"{settings.learn} of {settings.method}")
        if settings.learn == "hmc":
            return sample(method, problem, prior, self, schedule(settings.steps))
        problem, trace = maximise(method, problem, prior, self, settings.steps)
        fit = method.fit(problem, Alone())
        return replace(fit, trace=[*trace, *fit.trace])

    # -- dense.Watch -------------------------------------------------------------------------------

    def say(
        self, done: int, total: int, state: Callable[[], dict[str, NDArray[Any]]], **figures: float
    ) -> None:
        """Show progress, write a checkpoint now and then, and stop if asked to.

        Raises
        ------
        Interrupted
            If a stop was requested.
        """
        if total != self._total:
            self._total = total
            self.progress.start(total, "steps", self._stage)
        self.progress.update(done, **figures)
        stopping = self.stop is not None and bool(self.stop.requested)
        if stopping or time.monotonic() - self._saved >= self.save_seconds:
            kept = self._save(state())
            if stopping and self.stop is not None:
                where = "; go on by --resume" if kept else "; nothing was kept"
                raise Interrupted(f"stopped by {self.stop.requested} in step {done}{where}")

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield the results of tasks that run side by side on the runtime."""
        yield from self.runtime.run_tasks(function, shared, tasks)

    # -- records -----------------------------------------------------------------------------------

    def _begin(self, stage: str) -> None:
        self._stage, self._total = stage, -1

    def _save(self, state: Mapping[str, NDArray[Any]]) -> bool:
        if self.directory is None:
            return False
        self._saves += 1
        arrays = {f"state_{name}": np.asarray(array) for name, array in state.items()}
        meta = {"seconds": self._elapsed(), "saves": self._saves}
        kept = self.directory.save(self._saves, meta, {**arrays, "digests": self._digests})
        self._saved = time.monotonic()
        return kept

    def _restore(self, directory: RunDirectory) -> None:
        found = directory.load()
        if found is None:
            return
        self._saves, bundle = found
        require_same_rows(bundle.arrays["digests"], self._digests, TILE)
        self.seconds = float(bundle.meta["seconds"])
        self.former = {
            name.removeprefix("state_"): array
            for name, array in bundle.arrays.items()
            if name.startswith("state_")
        }

    def _elapsed(self) -> float:
        return self.seconds + time.monotonic() - self._started

    def _point(self, model: DenseModel) -> dict[str, float]:
        """Return the one point of the learning curve: figures of training and held-out rows."""
        point = {"n_active": len(model.rows), "seconds": round(self._elapsed(), 3)}
        point |= standing("train", model, self.data.train, self.data.target)
        if self.data.held_out is not None:
            point |= standing("heldout", model, self.data.held_out, self.data.held_out_target)
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


def schedule(steps: int) -> Schedule:
    """Return chains of so many draws, and at most as many steps before these."""
    return Schedule(
        burn_in=min(Schedule.burn_in, steps),
        draws=steps,
        kept=min(Schedule.kept, Schedule.chains * steps),
    )


def digests(x: Doubles, target: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a digest of every `TILE` rows, by which a resumed run knows its data."""
    rows = np.concatenate([x, np.asarray(target, np.float64)[:, np.newaxis]], axis=1)
    parts = (rows[start : start + TILE] for start in range(0, len(rows), TILE))
    each = [hashlib.blake2b(np.ascontiguousarray(part).tobytes(), digest_size=8) for part in parts]
    return np.array([int.from_bytes(digest.digest()) for digest in each], dtype=np.uint64)


def require_memory(n: int, n_classes: int, settings: DenseSettings) -> None:
    """Refuse more rows than memory can hold.

    Raises
    ------
    SettingsError
    """
    a_row = 8 * settings.sizes(n_classes)[1]
    needed, free = a_row * n * n, free_memory()
    if needed > free:
        raise SettingsError(
            f"method={settings.method} holds {needed / 1e9:.1f} GB for {n} rows, and "
            f"{free / 1e9:.1f} GB are free; give at most {int(np.sqrt(free / a_row))} "
            "rows, or use method=ivm, which takes any number"
        )
