"""Row blocks and rounds with a separate active set for each latent value (SLH section 4.2).

The processes are independent in the posterior, but share the likelihood. A round includes the best
pair of a row j and a process c: j joins the active set I_c, and only process c changes.

All processes have the same candidates J. If stub entries are bounded, rows are dropped from J
according to their best score over processes; a row that is active for one process can remain a
candidate for the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import StoreError
from sparsegp.ivm.active_set import History, Pair
from sparsegp.ivm.criteria import Change, Marginals
from sparsegp.ivm.greedy import Blocks, make_room
from sparsegp.ivm.rows import Block, BlockSettings
from sparsegp.ivm.scores import quantise
from sparsegp.types import Booleans, Doubles, Floats, Integers

PANEL = 64
"""Number of stub columns allocated at a time."""
NARROW_PANEL = 16  # if stub entries are bounded, so that little memory is unused


class PairBlock(Block):
    """Block of consecutive rows and their state, with a separate active set per process."""

    def _begin(self) -> None:
        super()._begin()
        self.panel = PANEL if self.settings.bound is None else NARROW_PANEL
        self.open_pairs = np.repeat(self.open[:, np.newaxis], self.settings.n_latent, axis=1)

    def include(self, pair: Pair) -> None:
        """Apply a pair: new stub column, variances and means of one process."""
        if self.n_active > pair.start:
            return  # the message was received before
        self._require(pair.start)
        c, t, q = pair.process, self.sizes[pair.process], self.panel
        kernel, panels = self.settings.kernels[c], self.stubs[c]
        if t % q == 0:
            panels.append(self._allocate_panel(q))
        past = np.zeros(len(panels) * q, dtype=self.X.dtype)
        past[:t] = pair.factor[:t]
        for tiles in self._groups():
            X, half_norms = self._inputs(tiles)
            column = kernel(X, pair.x[np.newaxis], half_norms)[..., 0]
            for k, panel in enumerate(panels):
                column = column - past[k * q : (k + 1) * q] @ panel[tiles]
            column = column / column.dtype.type(pair.factor[t])
            panels[-1][tiles, t % q] = column
            rows = slice(tiles.start * self.width, tiles.stop * self.width)
            mu = column.reshape(-1).astype(np.float64)
            self.mean[rows, c] += mu * pair.step
            self.variance[rows, c] -= np.square(mu)
        index = self._places(np.array([pair.row]))
        self.open_pairs[index, c] = False
        self.open[index] = self.open_pairs[index].any(axis=1)
        self.sizes[c] += 1
        self.n_active += 1

    def advance(self, pair: Pair | None, n_pairs: int) -> Pair | None:
        """Apply a pair, if any, and return the best next pair in this block, or None."""
        if pair is not None:
            self.include(pair)
        self._require(n_pairs)
        open_ = np.flatnonzero(self.open)
        if len(open_) == 0:
            return None
        scores = quantise(self._scores(open_, self.marginals().take(open_)))
        place = int(scores.argmax())  # ties go to the smaller row, then process
        j, c = divmod(place, scores.shape[1])
        return None if scores[j, c] == -np.inf else self._pair(open_[[j]], c, float(scores[j, c]))

    def _scores(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the scores of rows for each process, -inf for pairs already included."""
        criterion, rule = self.settings.criterion, self.settings.rule
        assert isinstance(criterion, Change)  # checked by the settings
        scores = criterion.scores_by_value(rule, marginals)
        return np.where(self.open_pairs[index], scores, -np.inf)

    def _pair(self, index: Integers, c: int, score: float) -> Pair:
        """Return the pair of process c and a row of this block, given by its index (1,)."""
        own, t = self.marginals().take(index), self.sizes[c]
        sites = own.sites(self.settings.rule)
        factor = np.empty(t + 1)
        factor[:t], factor[t] = self._stub_rows(index, c)[0], sites.length[0, c]
        return Pair(
            start=self.n_active,
            process=c,
            row=int(self.rows[index[0]]),
            target=int(own.target[0]),
            x=self.X[self.rows[index[0]] - self.first_row],
            factor=factor,
            step=float(sites.step[0, c]),
            site=float(sites.mean[0, c]),
            precision=float(sites.precision[0, c]),
            score=score,
        )

    def _evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the best score of each row, which decides whether it is kept (SLH section 4.2)."""
        return np.asarray(self._scores(index, marginals).max(axis=1))

    def _reindex(self, places: Integers) -> None:
        self.open_pairs = self.open_pairs[places] & self.real[:, np.newaxis]

    def _without_sites(self) -> Booleans:
        return np.asarray(self.open_pairs.all(axis=1))


COLUMNS = ("process", "target", "step", "site", "precision", "score")
"""Scalar fields of a pair, saved unchanged."""


class PairSet(History[Pair]):
    """Active sets of all processes, as pairs in order of inclusion."""

    def _first(self) -> dict[int, Pair]:
        """Return the first pair of each active row, in order of inclusion."""
        first: dict[int, Pair] = {}
        for pair in self.included:
            first.setdefault(pair.row, pair)
        return first

    @property
    def rows(self) -> Integers:
        """Rows active for at least one process, in order of first inclusion, (d,)."""
        return np.array(list(self._first()), dtype=np.int64)

    @property
    def target(self) -> Integers:
        """Class codes of these rows, (d,)."""
        return np.array([pair.target for pair in self._first().values()], dtype=np.int64)

    @property
    def x(self) -> Floats:
        """Scaled inputs of these rows, (d, p)."""
        return np.stack([pair.x for pair in self._first().values()])

    def sites(self, n_latent: int) -> tuple[Doubles, Doubles]:
        """Return site means and precisions, both (d, R); zero where a row is not active."""
        place = {row: k for k, row in enumerate(self._first())}
        mean, precision = np.zeros((2, len(place), n_latent))
        for pair in self.included:
            mean[place[pair.row], pair.process] = pair.site
            precision[place[pair.row], pair.process] = pair.precision
        return mean, precision

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as a few arrays; factors are concatenated."""
        pairs = self.included
        return {
            **{name: np.array([getattr(pair, name) for pair in pairs]) for name in COLUMNS},
            "rows": np.array([pair.row for pair in pairs]),
            "x": np.stack([pair.x for pair in pairs]),
            "factor": np.concatenate([pair.factor for pair in pairs]),
            **self.kept_arrays(),
        }

    @staticmethod
    def shapes(d: int, p: int, n_kernels: int, n_latent: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of `arrays`, except the factors, for d pairs and p columns."""
        return {**dict.fromkeys(("rows", *COLUMNS), (d,)), "x": (d, p)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], slots: int = 1) -> "PairSet":
        """Rebuild the pairs from the result of `arrays`, whatever the slots.

        Raises
        ------
        StoreError
            If the arrays are inconsistent.
        """
        active, process = cls(), arrays["process"]
        active.restore_kept(arrays)
        sizes = [1 + int((process[:j] == c).sum()) for j, c in enumerate(process)]
        if sum(sizes) != len(arrays["factor"]):
            raise StoreError(
                f"the checkpoint's factors have {len(arrays['factor'])} entries, not {sum(sizes)}"
            )
        factors = np.split(arrays["factor"], np.cumsum(sizes)[:-1])
        for j, (row, x) in enumerate(zip(arrays["rows"].tolist(), arrays["x"], strict=True)):
            numbers = {name: arrays[name][j].item() for name in COLUMNS}
            active.included.append(Pair(start=j, row=row, x=x, factor=factors[j], **numbers))
        return active


@dataclass(eq=False)
class PairSelection:
    """Selection in rounds of one pair each."""

    blocks: Blocks  # the runtime with the pair blocks, all in the state given by `active`
    settings: BlockSettings
    active: PairSet  # empty, or restored from a checkpoint
    _offered: list[Pair | None] | None = field(default=None, init=False)

    def round(self, stop: int) -> bool:
        """Include the best pair, as `Selection.round` does rows; return whether there was one."""
        d = len(self.active)
        room = make_room(self.blocks, self.settings, self.active)
        offered = self._offered or self.blocks.map_blocks("advance", None, d)
        pairs = [pair for pair in offered if pair is not None]
        if not pairs:
            return False
        best = min(pairs, key=lambda pair: (-pair.score, pair.row, pair.process))
        self.active.included.append(best)
        self._offered = None
        if d + 1 < room:
            self._offered = self.blocks.map_blocks("advance", best, d + 1)
        else:
            self.blocks.map_blocks("include", best)
        return True
