"""Pipelines of error-reject curves (Rasmussen & Williams 2006, section 3.7.3, figure 3.10).

Of the test rows those that a classifier is least certain of are rejected; the curves show error and
test information of the rest. Certain is a classifier by its greatest probability, the probabilistic
nearest neighbour by its distance. Information is that beyond the shares of the labels, on all test
rows: whatever is rejected, no more can be told than there was to tell. Test rows of all seeds of a
variant are pooled.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparsegp.data import Dataset
from sparsegp.report import reject_curves, rejecting
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.files import write_csv
from sparsegp.reproduce.judge import Predictions, Rows
from sparsegp.reproduce.kinds.base import KINDS, Result
from sparsegp.reproduce.kinds.train import Train
from sparsegp.types import Doubles

ERROR, INFORMATION = "error on the rows kept, %", "information on the rows kept, bits"
SHARES = (0.05, 0.1, 0.2)
LEAST_KEPT = 20
"""Means over fewer rows than this are not drawn."""


def _of_share(share: float) -> dict[str, tuple[str, float]]:
    rejected = f"with {100 * share:g} % rejected"
    return {
        f"test error %, {rejected}": (ERROR, share),
        f"test information bits, {rejected}": (INFORMATION, share),
    }


AFTER = {name: place for share in SHARES for name, place in _of_share(share).items()}


class Reject(Train):
    """Trains, and keeps how certain and how right the classifier is of each test row."""

    figures = (*Train.figures, *AFTER)
    default_figures = ("test error %", "test information bits", *_of_share(0.1))

    def kept_rows(self, predictions: Callable[[], Predictions], dataset: Dataset) -> Result:
        """Keep all test rows."""
        return {"rows": Rows.of(predictions(), dataset).to_json()}

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Return a figure of `Train`, or a mean over the rows that are kept."""
        if what not in AFTER:
            return super().figure(result, what, n_active)
        curve, share = AFTER[what]
        rejected, means = curves_of([result])[curve]
        value = means[np.flatnonzero(rejected <= share)[-1]]
        return None if np.isnan(value) else float(value)

    def draw_together(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]], out: Path
    ) -> None:
        """Write the curves of all variants as a table, and draw them."""
        by_variant: dict[str, list[Mapping[str, Any]]] = {}
        for cell in cells:
            by_variant.setdefault(cell.variant, []).append(results[cell.name])
        drawn: dict[str, dict[str, tuple[Doubles, Doubles]]] = {ERROR: {}, INFORMATION: {}}
        records = []
        for variant, of_variant in by_variant.items():
            n = sum(len(result["rows"]["right"]) for result in of_variant)
            for what, (rejected, means) in curves_of(of_variant).items():
                kept = (1.0 - rejected) * n > min(LEAST_KEPT, n) - 0.5
                x, y = rejected[kept], means[kept]
                if not np.isnan(y).any():
                    drawn[what][variant] = (x, y)
                    records += [
                        {"variant": variant, "what": what, "rejected": share, "mean": mean}
                        for share, mean in zip(x.tolist(), y.tolist(), strict=True)
                    ]
        if records:
            write_csv(out / "reject.csv", list(records[0]), records)
            reject_curves({k: v for k, v in drawn.items() if v}, out / "reject.png")


def curves_of(results: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Doubles, Doubles]]:
    """Return shares rejected and means, by what is averaged; NaN where there is no probability."""
    rows = [Rows.from_json(result["rows"]) for result in results]
    certainty, right, gains = (
        np.concatenate([getattr(each, name) for each in rows])
        for name in ("certainty", "right", "information")
    )
    return {
        ERROR: rejecting(certainty, 100.0 * ~right),
        INFORMATION: rejecting(certainty, gains),
    }


KINDS.register("reject")(Reject())
