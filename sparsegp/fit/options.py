"""Arguments that all fitting functions share: output, checkpoints, runtime and progress."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import Any, Self

from sparsegp.errors import SettingsError
from sparsegp.interrupt import StopRequest
from sparsegp.progress import Progress
from sparsegp.report import progress_for
from sparsegp.runtime import Where, open_runtime
from sparsegp.store import RunDirectory


@dataclass(frozen=True)
class RunOptions:
    """Arguments of `sparsegp.train`, where they are described."""

    _: KW_ONLY
    out: str | os.PathLike[str] | None = None
    resume: bool = False
    overwrite: bool = False
    checkpoint_every: int | None = None
    keep_last: int = 2
    runtime: Where = None
    tls: str | os.PathLike[str] | None = None
    client: Any = None
    progress: Progress | None = None
    verbose: bool = False

    @classmethod
    def among(cls, named: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Create from those arguments that are run options; also return the others."""
        own = {each.name for each in fields(cls)} & named.keys()
        others = {name: value for name, value in named.items() if name not in own}
        return cls(**{name: named[name] for name in own}), others

    @cached_property
    def shown(self) -> Progress:
        """The progress to show; raises SettingsError if it is invalid, or given with `verbose`."""
        return progress_for(self.progress, self.verbose)

    def folder(self) -> RunDirectory | None:
        """Return the folder of the run, or None without `out`.

        Raises
        ------
        SettingsError
            If options contradict each other.
        StoreError
            If it holds an unfinished run that is neither resumed nor overwritten.
        """
        if self.out is None:
            if self.resume:
                raise SettingsError("resume needs the directory of the run: give out")
            return None
        store = RunDirectory(self.out, self.keep_last, self.shown.message, self.overwrite)
        store.require_no_unfinished_run(self.resume)
        return store

    @contextmanager
    def opened(self) -> Iterator[dict[str, Any]]:
        """Open the runtime, and yield the arguments of `fit.run.Run` except the folder."""
        if self.runtime is not None and self.client is not None:
            raise SettingsError("give only one of `runtime` and `client`")
        shown, where = self.shown, self.client if self.runtime is None else self.runtime
        try:
            with StopRequest() as stop, open_runtime(where, tls=self.tls) as runtime:
                yield {
                    "stop": stop,
                    "runtime": runtime,
                    "resume": self.resume,
                    "checkpoint_every": self.checkpoint_every,
                    "progress": shown,
                }
        finally:
            shown.finish()
