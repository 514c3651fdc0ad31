"""Our figures beside the published ones."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparsegp.reproduce.pipeline import Claim, Pipeline

COLUMNS = (
    "variant",
    "rows",
    "what",
    "seeds",
    "ours",
    "sd",
    "se",
    "published",
    "published_is_bound",
    "difference",
    "difference_in_se",
    "where",
    "goal",
    "goal_within",
    "goal_met",
)

HEADER = ("variant", "rows", "what", "ours", "published", "difference", "place", "goal")
"""Columns that are shown."""


@dataclass(frozen=True)
class Row:
    """One figure of one variant, over its seeds.

    Parameters
    ----------
    variant, rows, what : str, int, str
    values : tuple of float
        One a seed.
    published, goal : Claim or None
    """

    variant: str
    rows: int
    what: str
    values: tuple[float, ...]
    published: Claim | None = None
    goal: Claim | None = None

    @property
    def ours(self) -> float | None:
        """Mean over the seeds, None if nothing was run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Standard deviation over the seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def se(self) -> float | None:
        """Standard error of the mean."""
        return None if self.sd is None else self.sd / math.sqrt(len(self.values))

    @property
    def difference(self) -> float | None:
        """Ours less the published figure."""
        if self.published is None or self.ours is None:
            return None
        return self.ours - self.published.value

    @property
    def difference_in_se(self) -> float | None:
        """The difference in standard errors of our mean."""
        if self.difference is None or not self.se:
            return None
        return self.difference / self.se

    @property
    def goal_met(self) -> bool | None:
        """Whether our figure is as wanted."""
        if self.goal is None or self.ours is None:
            return None
        if self.goal.within is not None:
            return abs(self.ours - self.goal.value) <= self.goal.within
        return self.ours <= self.goal.value

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, by `COLUMNS`."""
        return {
            "variant": self.variant,
            "rows": self.rows,
            "what": self.what,
            "seeds": len(self.values),
            "ours": self.ours,
            "sd": self.sd,
            "se": self.se,
            "published": self.published and self.published.value,
            "published_is_bound": self.published and self.published.bound,
            "difference": self.difference,
            "difference_in_se": self.difference_in_se,
            "where": self.published and self.published.where,
            "goal": self.goal and self.goal.value,
            "goal_within": self.goal and self.goal.within,
            "goal_met": self.goal_met,
        }


def tabulate(pipeline: Pipeline, results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return the rows of the table.

    Parameters
    ----------
    pipeline : Pipeline
    results : mapping
        Of finished cells by name.
    """
    rows, results = [], pipeline.kind.complete(pipeline.cells, results)
    for variant, what, n_active in pipeline.tabulated:
        found = [
            pipeline.kind.figure(results[cell.name], what, n_active)
            for cell in pipeline.variants[variant]
            if cell.name in results
        ]
        values = tuple(value for value in found if value is not None)
        key = (variant, what, n_active)
        published, goal = _claim(pipeline.published, key), _claim(pipeline.goals, key)
        rows.append(Row(variant, n_active, what, values, published, goal))
    return rows


def _claim(claims: Sequence[Claim], key: tuple[str, str, int]) -> Claim | None:
    same = (claim for claim in claims if (claim.variant, claim.what, claim.n_active) == key)
    return next(same, None)


def as_text(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table as it is shown; columns without any entry are left out."""
    return aligned([HEADER, *(shown_row(row) for row in rows)])


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its header first; columns without any entry are left out."""
    every = range(len(cells[0]))
    widths = [max(len(line[i]) for line in cells) for i in every]
    used = [i for i in every if any(line[i] for line in cells[1:])]
    return ["  ".join(line[i].ljust(widths[i]) for i in used).rstrip() for line in cells]


def shown_row(row: Row) -> tuple[str, ...]:
    """Return what is shown of a row, by `HEADER`."""
    ours = "-" if row.ours is None else number(row.ours)
    if row.sd is not None:
        ours += f" +- {number(row.sd)} ({len(row.values)} seeds)"
    published = place = difference = goal = ""
    if row.published is not None:
        published = ("< " if row.published.bound else "") + f"{row.published.value:g}"
        place = row.published.where
    if row.difference is not None:
        difference = f"{'-' if row.difference < 0 else '+'}{number(abs(row.difference))}"
    if row.difference_in_se is not None:
        difference += f" ({row.difference_in_se:+.1f} s.e.)"
    if row.goal is not None:
        state = {True: ", met", False: ", missed", None: ""}[row.goal_met]
        near = row.goal.within is not None
        wanted = f"{row.goal.value:g} +- {row.goal.within:g}" if near else f"<= {row.goal.value:g}"
        goal = wanted + state
    return row.variant, str(row.rows or "all"), row.what, ours, published, difference, place, goal


def number(value: float) -> str:
    """Write a figure with three digits, or all of those before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"
