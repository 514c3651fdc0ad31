"""One against the rest: a binary model of this package for every class."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from sparsegp.data import Table, encode, table_from_arrays
from sparsegp.report.one_against_rest import combine
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import CONTESTANTS, Contestant, Fitted
from sparsegp.reproduce.toml import Section
from sparsegp.settings import TrainSettings
from sparsegp.training import Progress
from sparsegp.types import Doubles


class OneAgainstRest(Contestant):
    """Models that each tell one class from all others; their probabilities are normalised.

    Each takes the settings of the variant, whose likelihood must be for two classes, and includes
    `n_active` rows of its own (Seeger, Lawrence & Herbrich 2006, section 6.5).
    """

    title = "one against the rest"
    settings_used = tuple(field.name for field in fields(TrainSettings))
    takes_all_rows = False

    def read(self, section: Section) -> dict[str, Any]:
        """All is in the settings."""
        del section
        return {}

    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Train on one thread, class by class."""
        from sparsegp.training import train as fit  # noqa: PLC0415 - takes no part in the time

        classes, target = encode(train.y, train.source)
        labels = [(target == k).astype(np.int64) for k in range(len(classes))]
        tables = [table_from_arrays(train.X, own, train.source) for own in labels]
        settings = cell.settings.to_json()

        def work() -> Fitted:
            models = [fit(table, threads=1, progress=progress, **settings) for table in tables]

            def logs(X: Any) -> Doubles:
                return combine(np.stack([m.predict_log_proba(X)[:, 1] for m in models], axis=1))

            kernels = [str(kernel) for model in models for kernel in model.kernels]
            words = f"{len(models)} times d={cell.n_active}, {'; '.join(dict.fromkeys(kernels))}"
            active = {"active_rows": [len(model.rows) for model in models]}
            return Fitted(classes, logs, lambda X: logs(X).argmax(axis=1), words, active)

        return work


CONTESTANTS.register("one-against-rest")(OneAgainstRest())
