"""Row blocks and rounds where every latent value has an active set of its own (SLH section 4.2).

The processes are independent under the posterior, but share the likelihood. A round includes the
best pair of a row j and a process c: j joins the active set I_c, and only process c changes.

Candidates J are common to all processes. Where stub entries are bounded, J gets smaller by the best
score of each row; a row that is active for one process may stay for the sake of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import StoreError
from sparsegp.ivm.criteria import Change, Marginals
from sparsegp.ivm.evidence_rows import Representation, RowSums
from sparsegp.ivm.greedy import Blocks, make_room
from sparsegp.ivm.rows import BlockSettings
from sparsegp.ivm.scores import quantise
from sparsegp.ivm.shrink import Keep, in_order, kept_arrays, kept_from, room
from sparsegp.ivm.thinning import ThinnedRows
from sparsegp.types import Doubles, Floats, Integers

PANEL = 64
"""Stub columns that are allocated at a time."""
NARROW_PANEL = 16
"""The same where stub entries are bounded, so that little is left empty."""


@dataclass(frozen=True)
class Pair:
    """A row joins the active set of one process.

    Attributes
    ----------
    number : int
        Pairs before it.
    process : int
    row : int
    target : int
    x : Floats (p,)
    factor : Doubles (t + 1,)
        Row of L: the stub column of the row, and the length of its site.
    step : float
        Change of the latent means along the new stub column.
    site, precision : float
        Mean and precision of the site.
    score : float
        In units of the comparison.
    """

    number: int
    process: int
    row: int
    target: int
    x: Floats
    factor: Doubles
    step: float
    site: float
    precision: float
    score: float

    @property
    def stop(self) -> int:
        """Pairs after it."""
        return self.number + 1


class PairBlock(ThinnedRows):
    """Consecutive rows and their state; every process has an active set of its own."""

    def _begin(self) -> None:
        super()._begin()
        self.sizes = [0] * self.settings.n_latent
        self.stubs: list[list[Floats]] = [[] for _ in self.sizes]
        self.panel = PANEL if self.settings.bound is None else NARROW_PANEL
        self.open_pairs = np.repeat(self.open[:, np.newaxis], self.settings.n_latent, axis=1)

    def include(self, pair: Pair) -> None:
        """Apply a pair: a new stub column of one process, its variances and means."""
        if self.n_active > pair.number:
            return  # a message that comes twice
        self._require(pair.number)
        c, t, q = pair.process, self.sizes[pair.process], self.panel
        kernel, panels = self.settings.kernels[c], self.stubs[c]
        if t % q == 0:
            shape = (self.n_tiles, q, self.width)
            panels.append(self.settings.allocate(shape, self.X.dtype))
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
            wide = column.reshape(-1).astype(np.float64)
            self.mean[rows, c] += wide * pair.step
            self.variance[rows, c] -= np.square(wide)
        index = self._local(np.array([pair.row]))
        self.open_pairs[index, c] = False
        self.open[index] = self.open_pairs[index].any(axis=1)
        self.sizes[c] += 1
        self.n_active += 1

    def advance(self, pair: Pair | None, n_pairs: int) -> Pair | None:
        """Apply a pair and return the best one among the rows of this block, if there is one."""
        if pair is not None:
            self.include(pair)
        self._require(n_pairs)
        if self.held_out:
            return None
        open_ = np.flatnonzero(self.open)
        if len(open_) == 0:
            return None
        scores = quantise(self._scores(open_, self._marginals().take(open_)))
        place = int(scores.argmax())  # the first of equals: smaller row, then smaller process
        j, c = divmod(place, scores.shape[1])
        if scores[j, c] == -np.inf:
            return None
        return self._pair(int(open_[j]), c, float(scores[j, c]))

    def _scores(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the scores of some rows for every process, minus infinity for pairs included."""
        criterion, rule = self.settings.criterion, self.settings.rule
        assert isinstance(criterion, Change)  # checked by the settings
        scores = criterion.scores_by_value(rule, marginals)
        return np.where(self.open_pairs[index], scores, -np.inf)

    def _evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the best scores of some rows, by which candidates stay (SLH section 4.2)."""
        best: Doubles = self._scores(index, marginals).max(axis=1)
        return best

    def _follow(self, places: Integers) -> None:
        self.open_pairs = self.open_pairs[places] & self.real[:, np.newaxis]
        self.stubs = [
            [self._moved(panel[np.newaxis], places)[0] for panel in panels] for panels in self.stubs
        ]

    def _pair(self, index: int, c: int, score: float) -> Pair:
        """Return a row of this block and a process with all that is needed to include them."""
        one, t = slice(index, index + 1), self.sizes[c]
        target = self.target[one]
        sites = self.settings.rule.sites(self.mean[one], self.variance[one], target)
        tile, place = divmod(index, self.width)
        stub = [panel[tile, :, place] for panel in self.stubs[c]]
        factor = np.concatenate([*stub, np.zeros(1)])[: t + 1].astype(np.float64)
        factor[t] = sites.length[0, c]
        return Pair(
            number=self.n_active,
            process=c,
            row=int(self.rows[index]),
            target=int(target[0]),
            x=self.X.reshape(-1, self.X.shape[2])[self.rows[index] - self.first_row],
            factor=factor,
            step=float(sites.step[0, c]),
            site=float(sites.mean[0, c]),
            precision=float(sites.precision[0, c]),
            score=score,
        )

    def evidence(self, n_pairs: int, representation: Representation, spare: int) -> RowSums | None:
        """Return what rows without any pair add to the evidence; None for held-out rows.

        Parameters are those of `evidence_rows.row_sums`.
        """
        self._require(n_pairs)
        return self._row_sums(np.asarray(self.open_pairs.all(axis=1)), representation, spare)

    def array(self, name: str, process: int = 0) -> Floats:
        """Return `stub` (d_c, m) of one process, `mean` (m, R) or `variance` (m, R).

        They are not a number for rows that are no candidates any more.
        """
        if name != "stub":
            return self._of_all_rows({"mean": self.mean, "variance": self.variance}[name])
        t = self.sizes[process]
        stub = np.concatenate(self.stubs[process], axis=1)[:, :t].swapaxes(1, 2)
        return self._of_all_rows(stub.reshape(len(self.rows), t)).T


class PairSet:
    """The pairs in order of inclusion, and which candidates were kept in between."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.kept: list[Keep] = []

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def room(self) -> int:
        """Pairs for which the candidates last kept are there."""
        return room(self.kept)

    def recovery(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the messages that bring a new block to the present."""
        return in_order(self.kept, {pair.number: pair for pair in self.pairs})

    @property
    def _union(self) -> tuple[list[Pair], dict[int, int]]:
        """Return the first pair of every row, and the place of every row among them."""
        first: dict[int, Pair] = {}
        for pair in self.pairs:
            first.setdefault(pair.row, pair)
        return list(first.values()), {row: place for place, row in enumerate(first)}

    @property
    def rows(self) -> Integers:
        """Rows that are active for a process at least, in order of first inclusion, (d,)."""
        return np.array([pair.row for pair in self._union[0]], dtype=np.int64)

    @property
    def target(self) -> Integers:
        """Their class codes, (d,)."""
        return np.array([pair.target for pair in self._union[0]], dtype=np.int64)

    @property
    def x(self) -> Floats:
        """Their scaled inputs, (d, p)."""
        return np.stack([pair.x for pair in self._union[0]])

    def sites(self, n_latent: int) -> tuple[Doubles, Doubles]:
        """Return means and precisions of their sites, (d, R); zero where a row is not active."""
        first, place = self._union
        mean, precision = np.zeros((len(first), n_latent)), np.zeros((len(first), n_latent))
        for pair in self.pairs:
            mean[place[pair.row], pair.process] = pair.site
            precision[place[pair.row], pair.process] = pair.precision
        return mean, precision

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as a few arrays; the factors one after the other."""
        found: dict[str, NDArray[Any]] = {
            name: np.array([getattr(pair, name) for pair in self.pairs])
            for name in ("process", "row", "target", "step", "site", "precision", "score")
        }
        found["rows"] = found.pop("row")
        found["x"] = np.stack([pair.x for pair in self.pairs])
        found["factor"] = np.concatenate([pair.factor for pair in self.pairs])
        return found | kept_arrays(self.kept)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], slots: int = 1) -> "PairSet":
        """Rebuild what `arrays` returned.

        Raises
        ------
        StoreError
            If the arrays do not fit together.
        """
        del slots
        active, start = cls(), 0
        active.kept = kept_from(arrays)
        sizes: dict[int, int] = {}
        factor = arrays["factor"]
        names = ("process", "target", "step", "site", "precision", "score")
        for number, row in enumerate(arrays["rows"].tolist()):
            values = {name: arrays[name][number].item() for name in names}
            size = sizes[values["process"]] = sizes.get(values["process"], 0) + 1
            x = arrays["x"][number]
            active.pairs.append(
                Pair(number=number, row=row, x=x, factor=factor[start : start + size], **values)
            )
            start += size
        if start != len(factor):
            raise StoreError(f"the checkpoint's factors have {len(factor)} entries, not {start}")
        return active


class PairSelection:
    """Rounds of one pair each.

    Parameters
    ----------
    blocks : Blocks
        A runtime that holds pair blocks; all of them at the state of `active`.
    settings : BlockSettings
    active : PairSet
        Empty, or what a checkpoint held.
    """

    def __init__(self, blocks: Blocks, settings: BlockSettings, active: PairSet) -> None:
        self.blocks, self.settings, self.active = blocks, settings, active
        self._offered: list[Pair | None] | None = None

    def round(self, stop: int, last: int | None = None) -> bool:
        """Include the best pair; return whether there was one that may be included."""
        room = make_room(self.blocks, self.settings, self.active, n_processes=1)
        more = len(self.active) + 1 < min(last or stop, room)
        offered = self._offered
        if offered is None:
            offered = self.blocks.map_blocks("advance", None, len(self.active))
        pairs = [pair for pair in offered if pair is not None]
        if not pairs:
            return False
        best = min(pairs, key=lambda pair: (-pair.score, pair.row, pair.process))
        best = replace(best, number=len(self.active))
        if more:
            self._offered = self.blocks.map_blocks("advance", best, len(self.active) + 1)
        else:
            self._offered = None
            self.blocks.map_blocks("include", best)
        self.active.pairs.append(best)
        return True
