"""Train a model with one call, and the sparse fit stage by stage."""

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from sparsegp.data import Table, table_from_arrays
from sparsegp.errors import SettingsError, quoted
from sparsegp.fields import path_text
from sparsegp.fit.blocks import SparseRun
from sparsegp.fit.dense import DenseRun
from sparsegp.fit.learning import learn
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model, SparseModel
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.progress import Progress, require_progress
from sparsegp.runtime import Where, open_runtime
from sparsegp.settings import DenseSettings, settings_given
from sparsegp.store import RunDirectory


def train(  # noqa: PLR0913 - the one place where everything can be said
    X: Any,
    y: Any = None,
    *,
    test: tuple[Any, Any] | Table | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_every: int | None = None,
    keep_last: int = 2,
    block_rows: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    runtime: Where = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Model:
    """Train a classifier or a regression.

    Parameters
    ----------
    X : array or dask array (n, p), or Table
        Inputs.
    y : array (n,)
        Labels: integers or strings; numbers in a regression.
    test : pair (X, y) or Table, optional
        Held-out rows whose error is followed along the learning curve.
    out : path or URL, optional
        Directory for checkpoints and the model, or a place in a store, such as s3://bucket/run. If
        the same run is there, and finished, its model is returned.
    resume : bool
        Go on with the run in `out`, if there is one.
    overwrite : bool
        Delete the run in `out`, if there is one, and begin anew.
    checkpoint_every : int, optional
        Inclusions, or other steps, between two checkpoints. If left out they are written as often
        as takes a fiftieth of the time.
    keep_last : int
        Checkpoints that are kept.
    block_rows : int, optional
        Rows in a block.
    scratch : path, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.
    runtime : Runtime or str or path, optional
        Where to run: "threads=4", "workers=2" (local processes), the address of a scheduler or the
        ``*.json`` that it wrote, a cluster's ``*.yaml``; see `sparsegp.runtime.open_runtime`. By
        default threads on all processors.
    progress : Progress, optional
    **settings
        Fields of `TrainSettings`; or `method`, the name of a dense method, and fields of
        `DenseSettings`.

    Returns
    -------
    Model

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        What must be mended, in one sentence.
    Interrupted
        On SIGTERM or Ctrl-C; the run can be resumed if it has a directory.
    """
    table = X if isinstance(X, Table) else table_from_arrays(X, y)
    if test is not None and not isinstance(test, Table):
        pair: Any = test
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SettingsError(f"test must be a pair of inputs and labels, got {quoted(test)}")
        test = table_from_arrays(*test, source="test")
    chosen, shown = settings_given(**settings), require_progress(progress)
    store = None
    if out is not None:
        if resume and overwrite:
            raise SettingsError("give only one of `resume` and `overwrite`")
        store = RunDirectory(out, keep_last, shown.message, overwrite)
        store.check_free(resume)
    elif resume:
        raise SettingsError("resume needs the directory of the run: give out")
    with ExitStack() as stack:
        how: dict[str, Any] = {
            "stop": stack.enter_context(StopRequest()),
            "runtime": stack.enter_context(open_runtime(runtime)),
            "store": store,
            "resume": resume,
            "checkpoint_every": checkpoint_every,
            "progress": shown,
        }
        if isinstance(chosen, DenseSettings):
            return DenseRun(table, chosen, test, **how).fit()
        how["scratch"] = None if scratch is None else path_text("scratch", scratch)
        return Training(table, chosen, test, block_rows=block_rows, **how).fit()


@dataclass(eq=False)
class Training(SparseRun):
    """One sparse fit, stage by stage: `build`, `learn`, `select`, `finish`; or all of it by `fit`.

    Parameters and attributes are those of `SparseRun`.
    """

    def complete(self) -> SparseModel:
        """Learn, select, and return the model."""
        self.learn()
        self.select()
        return self.finish(keep_blocks=False)

    def learn(self) -> None:
        """Learn kernels and likelihood, if the settings ask for that; see `fit.learning.learn`."""
        if self.settings.learn != "none" and (self.in_step or not len(self.active)):
            learn(self)

    def select(self) -> None:
        """Include all rows that remain, with reports and checkpoints on the way.

        Raises
        ------
        Interrupted
            If a stop was requested; what was reached is in a checkpoint.
        """
        every = self.settings.report_every
        self.progress.start(self.n_active, "rows", "select")
        self.progress.update(len(self.active))
        for count in self.include(every):
            if count % every == 0 or count == self.n_active:
                self._add_to_history()
            self.progress.update(count)
        if len(self.active) < self.n_active:
            self.progress.message(
                f"{len(self.active)} rows included: no other candidate has a site of precision "
                f"above {self.settings.epsilon:g} and latent variance left in "
                f"{self.settings.precision}"
            )
            self.n_active = len(self.active)
            self._add_to_history()
            self.checkpoint(self.done, due=True)
        self.progress.finish()

    def _add_to_history(self) -> None:
        """Add a point to the learning curve."""
        point = {"n_active": len(self.active), "seconds": round(self.seconds(), 3)}
        self.history.append({**point, **self.figures()})

    def finish(self, keep_blocks: bool = True) -> SparseModel:
        """Make the posterior and the model, and save it.

        Parameters
        ----------
        keep_blocks : bool
            Whether the row blocks will be looked at afterwards; otherwise their memory is given
            back as soon as they are not needed.

        Raises
        ------
        Interrupted
            If a stop was requested; what was reached is in a checkpoint.
        """
        active = ActiveRows.of(self.block_settings, self.active)
        chosen = POSTERIORS[self.settings.posterior]
        if not (keep_blocks or chosen.uses_all_rows or self.calibrate):
            self.runtime.build(self.block_type, [])
        self.progress.start(0, "rounds", "posterior")
        weights = chosen.make(active, self)
        self.progress.finish()
        if not keep_blocks:
            self.runtime.build(self.block_type, [])
        if self.steps:
            weights = replace(weights, report={**weights.report, "learning": self.steps})
        data = self.data
        model = SparseModel(
            active=active,
            weights=weights,
            rows=self.active.rows,
            classes=data.classes,
            scaling=data.scaling,
            settings=self.settings.to_json(),
            history=tuple(self.history),
            numbers=data.numbers,
            names=data.train.names,
        )
        if self.store is not None:
            model.save(self.store.model_path)
        return model
