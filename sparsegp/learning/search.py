"""The stages of a search for the kernel, described in docs/explanation/search.md.

They are the methods `compare`, `refine`, `select`, `reestimate`, `grow`, `finish` and
`choose_criterion` of `Search`. In the first three, candidates are judged by the same held-out rows,
which no fit has seen; a sum or a kernel with a metric, whose fits take longer, must lead all
others. Where labels are mostly noise, the last costly stage gains little, and is left out unless
earlier stages or more active rows gain much. Decisions are made at the end of a stage, when all its
trials are known, and depend on nothing else. So the choice depends neither on the number of
parallel trials nor on interruptions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparsegp.kernels import Kernel, Linear, Sum, parse
from sparsegp.learning.by_column import can_have_ard, with_warping
from sparsegp.learning.metric import FULL, MAX_METRIC_COLUMNS, NONE, is_per_column
from sparsegp.learning.plan import GAIN_DECAY, MAX_ACTIVE, Plan, Size
from sparsegp.learning.space import Candidate, Candidates
from sparsegp.learning.trials import ALL_RUNGS, OUT_OF_TIME, Choice, Outcome, Trial, TryOut, nlpp_of

MIN_ROWS_FOR_SUM, MIN_ROWS_FOR_SUM_IN_REGRESSION = 2000, 1000
"""With fewer rows the length scales of a sum of a rough and a smooth kernel are noise; a regression
target carries more information than a class."""
CLOSE_ERRORS = 2.0
"""Standard errors within which a kernel counts as nearly as good as the best."""
MAX_KINDS = 2
"""Maximum number of kinds of kernel whose length scales are re-estimated."""
MIN_GAIN = 0.01
"""Fraction of the NLPP that twice the active rows must gain, as fits take four times as long."""
COMPARED, LEARNT, PROBED, REESTIMATED, GROWN, SELECTED = 1, 2, 3, 4, 5, 6
"""Numbers of the stages that have trials."""


def search(candidates: Candidates, plan: Plan, try_out: TryOut) -> Choice:
    """Carry out a search, and return the best candidate of the last stage that was completed.

    Parameters
    ----------
    candidates : Candidates
    plan : Plan
    try_out : callable
        Runs trials; may raise to end the search.
    """
    under_way = Search(candidates, plan, try_out)
    complete = under_way.compare() and under_way.refine()
    under_way.select()
    complete = complete and under_way.reestimate() and under_way.grow()
    complete = complete and under_way.finish() and under_way.choose_criterion()
    return under_way.choice(ALL_RUNGS if complete else OUT_OF_TIME)


@dataclass(eq=False)
class Search:
    """State of a search; stages return whether there was time for all their trials."""

    candidates: Candidates
    plan: Plan
    try_out: TryOut

    def __post_init__(self) -> None:
        self.outcomes: dict[int, Outcome] = {}  # of the last completed stage, by candidate number
        self.winner = 0
        self.n_active = self.plan.sizes[0] if self.plan.sizes else None  # chosen so far
        self.criterion: str | None = None
        self.slower: set[int] = set()  # sums and candidates with a metric, whose fits take longer
        self.is_reestimated = False  # whether length scales have been re-estimated
        self.is_noise = False  # whether neither learning nor more active rows gain much

    def compare(self) -> bool:
        """Compare the first candidates on few rows."""
        numbers, size = self.candidates.first(self.plan.count), self.plan.first
        known = self.candidates.known
        trials = [Trial.of(n, known[n], COMPARED, size) for n in numbers]
        self.outcomes = dict(self.try_out(trials, f"trials of {size.rows} rows"))
        return len(self.outcomes) == len(trials)

    def refine(self) -> bool:
        """Learn per-column length scales, starting from the best smooth and rough kernels.

        Where labels look like noise, the best kernel with `laplace` is first tried alone, since the
        candidates miss functions that depend on few columns, or change quickly with some.
        """
        if not self.plan.by_column or (self.plan.ends_early and not self._leads()):
            return True
        known, outcomes, ranking = self.candidates.known, self.outcomes, self._ranking()
        kernels = {n: parse(known[n].kernel) for n in ranking if outcomes[n].nlpp is not None}
        plain, slower = self._starts(kernels)
        probed: Mapping[int, Outcome] = {}
        if self.plan.reestimation is None and self._looks_like_noise(kernels):
            first = [known[n] for n in self._best_laplace(kernels)]
            probed = self._learn(first, "a trial of learnt scales")
            if len(probed) < len(first) or self._looks_like_noise(kernels):
                return len(probed) == len(first)
            plain = [start for start in plain if start not in first]
        count = len(known) + len(plain)
        self.slower.update(range(count, count + len(slower)))
        learnt = self._learn(plain + slower, "trials of learnt scales")
        complete = len(learnt) == len(plain) + len(slower)
        return complete and self.learn_warping({**probed, **learnt})

    def _starts(self, kernels: Mapping[int, Kernel]) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates to learn from, and slower ones, given the kernels, best first.

        These are the best rough and smooth kernels and, as a slower one, their sum, or without a
        sum the second-best rough kernel if it is nearly as good. If `additive` is the best rough
        kernel, the best one that can be warped is added, which often gains more. The best kernel
        that depends on distances alone gets a metric, if it is nearly as good as the best of all.
        """
        known, best = self.candidates.known, next(iter(kernels), 0)
        least = MIN_ROWS_FOR_SUM_IN_REGRESSION if self.plan.is_regression else MIN_ROWS_FOR_SUM
        able = [n for n, kernel in kernels.items() if can_have_ard(kernel)]
        rough = [n for n in able if any(leaf.is_rough for leaf in kernels[n].leaves)]
        smooth = [n for n in able if n not in rough]
        slower = [
            known[n]._replace(kernel=f"{known[n].kernel} + {known[other].kernel}")
            for n in rough[:1]
            for other in smooth
            if known[other].scaling == known[n].scaling and self.plan.first.rows >= least
        ][:1]
        kept = {*rough[:1], *smooth[:1]}
        if self.plan.is_regression:  # where a wrong scaling costs most
            unlike = [n for n in smooth if known[n].scaling != known[smooth[0]].scaling]
            kept.update(n for n in unlike[:1] if self._is_close(n, smooth[0]))
        if self.plan.from_first:
            for kind in (rough, smooth):
                kept.update([n for n in kind if n < self.candidates.n_first][:1])
        if not slower:
            kept.update(n for n in rough[1:2] if self._is_close(n, rough[0]))
        kept.update(self._best_laplace(kernels) if self.plan.by_warping else ())
        few = self.candidates.n_columns <= MAX_METRIC_COLUMNS  # few enough for a metric
        alike = [
            n
            for n, kernel in kernels.items()
            if few and any(leaf.n_distances for leaf in kernel.leaves) and not is_per_column(kernel)
        ][:1]
        slower += [known[n]._replace(metric=FULL) for n in alike if self._is_close(n, best)]
        return [known[n] for n in sorted(kept, key=able.index)], slower

    def _looks_like_noise(self, kernels: Mapping[int, Kernel]) -> bool:
        """Return whether labels are mostly noise and linear kernels nearly as good as the best."""
        is_linear = {n: any(isinstance(k, Linear) for k in kernels[n].leaves) for n in kernels}
        return self._ends_after(n for n in kernels if is_linear[n])

    def _best_laplace(self, kernels: Mapping[int, Kernel]) -> list[int]:
        """Return the best candidate with `laplace`, if any: it can learn interactions."""
        return [n for n, kernel in kernels.items() if self._warped_start(kernel) is not None][:1]

    def learn_warping(self, learnt: Mapping[int, Outcome]) -> bool:
        """Learn input warping, starting from the best kernel with per-column length scales."""
        found = {n: self._warped_start(parse(outcome.kernel)) for n, outcome in learnt.items()}
        able = [n for n in self._ranking() if found.get(n) is not None]
        if not (able and self.plan.by_warping):
            return True
        if able[0] in self.slower:
            self.slower.add(len(self.candidates.known))
        start = self.candidates.known[able[0]]._replace(kernel=str(found[able[0]]))
        return len(self._learn([start], "trials of four scales for each column")) == 1

    def _warped_start(self, kernel: Kernel) -> Kernel | None:
        """Return the same covariance with four length scales per column; None if not applicable."""
        found = with_warping(kernel, self.candidates.n_columns)
        return found if found != kernel else None

    def _learn(self, starts: Sequence[Candidate], what: str) -> Mapping[int, Outcome]:
        """Run trials of new candidates, for which length scales or a metric are learnt."""
        known = self.candidates.known
        trials = [
            Trial.of(number, each, LEARNT, self.plan.first, each.metric == NONE)
            for number, each in enumerate(starts, len(known))
        ]
        found = self.try_out(trials, what)
        known.extend(starts)
        self.outcomes.update(found)
        return found

    def select(self) -> None:
        """Select the best candidate, or a given or safe one that it may lead only by chance."""
        self.winner = self._best() if self._leads() else 0
        safe = None if self.plan.errors else self.plan.safe
        if safe in self.outcomes and not self.outcomes[self.winner].leads(self.outcomes[safe]):
            self.winner = safe

    def _ends_after(self, compared: Iterable[int]) -> bool:
        """Return whether labels are mostly noise, and no candidate clearly leads those compared."""
        best = self.outcomes[self._best()]
        if self.plan.noise is None or best.nlpp is None or best.nlpp < self.plan.noise:
            return False
        return not all(best.leads(self.outcomes[n], CLOSE_ERRORS) for n in compared)

    def _leads(self) -> bool:
        """Return whether the best candidate leads number 0 by `plan.errors` standard errors."""
        given = self.outcomes.get(0)
        return given is None or self.outcomes[self._best()].leads(given, self.plan.errors)

    def grow(self) -> bool:
        """Double the number of active rows as long as the expected gain is enough.

        A doubling is expected to gain `gain_decay` times as much as the one before; if this is
        below `MIN_GAIN` it is not made. A trial of more than the smallest size would take half as
        long as the run, and one of more than `MAX_ACTIVE` longer: such a size is chosen if twice
        `MIN_GAIN` is expected. For classes, sizes up to `MAX_ACTIVE` have a trial only if as much
        is expected and a larger size is possible; else they are chosen without. In a regression
        they always have one, as outliers make gains uncertain.
        """
        if self.is_noise:
            return True
        gain = math.inf
        for place, size in enumerate(self.plan.grown):
            promise = self.plan.gain_decay * gain
            if promise < MIN_GAIN:
                return True
            is_more = size.n_active > self.plan.sizes[0]
            is_last = promise < 2.0 * MIN_GAIN or size.n_active == self.plan.sizes[-1]
            if is_more and is_last and not self.plan.is_regression:
                self.n_active = size.n_active
                return True
            trial = self._later_trial(self.winner, GROWN, size)
            found = self.try_out([trial], f"{size.n_active} active rows")
            if not found:
                return False
            before, self.outcomes = self.outcomes[self.winner], dict(found)
            if place > 0:
                gain = found[self.winner].gain_over(before, self.plan.is_regression)
            if is_more and gain >= MIN_GAIN:
                self.n_active = size.n_active
        for larger in (d for d in self.plan.sizes if d > MAX_ACTIVE):
            gain *= GAIN_DECAY
            if gain >= 2.0 * MIN_GAIN:
                self.n_active = larger
        return True

    def reestimate(self) -> bool:
        """Re-estimate length scales with more rows and active rows, and take the best kind."""
        size, before = self.plan.reestimation, self.outcomes.get(self.winner)
        is_kept = self.plan.errors > 0.0 and self.winner == 0
        if size is None or before is None or before.nlpp is None or is_kept:
            return True
        if self._ends_after(self.candidates.first(self.plan.count)) and not self._is_rough():
            return self.is_noise
        half, kinds = size.rows // 2, self._best_of_kinds()
        few = Size(size.rows - half, size.n_active // 2)
        found = self._reestimated(kinds, few, half)
        learnt = [n for n, outcome in found.items() if outcome.nlpp is not None]
        if len(found) < len(kinds) or not learnt:
            return len(found) == len(kinds)
        rest = Size(few.rows, size.n_active), half
        if self.plan.confirmation is not None:
            rest = self.plan.confirmation, 0
        nlpp = self._nlpp_of_kinds({n: found[n] for n in learnt}, *rest)
        if len(nlpp) < len(learnt):
            return False
        self._set_winner(min(nlpp, key=nlpp.__getitem__), found)
        self.is_reestimated = True
        return True

    def _is_rough(self) -> bool:
        """Return whether twice the active rows gain much; if not, and there was time, it is noise.

        Rough functions look like noise to fits with few active rows.
        """
        found, tried = list[Outcome](), self.plan.grown[:2]
        for size in tried:
            trial = self._later_trial(self.winner, PROBED, size)
            found += self.try_out([trial], f"{size.n_active} active rows").values()
        gains = bool(found[1:]) and found[1].gain_over(found[0]) >= MIN_GAIN
        self.is_noise = len(found) == len(tried) and not gains
        if self.is_noise and found:
            self.outcomes[self.winner] = found[1]
        return gains

    def finish(self) -> bool:
        """Re-estimate length scales from all rows, fewer of them active where more gain little."""
        size = self.plan.last(self.n_active)
        if size is None or not self.is_reestimated:
            return True
        found = self._reestimated([self.winner], size)
        if found and found[self.winner].nlpp is not None:
            self._set_winner(self.winner, found)
        return bool(found)

    def choose_criterion(self) -> bool:
        """Take random active rows if they are better than selected ones by `CLOSE_ERRORS`.

        They can be where labels are noisy and the function is rough: the rows with the least
        probable labels are then the noisiest.
        """
        size, known = self.plan.selection, self.outcomes.get(self.winner)
        if size is None or 2 * (self.n_active or 0) > self.plan.n_rows:
            return True
        if known is None or known.nlpp is None or known.nlpp < self.plan.doubt:
            return True
        random = self._later_trial(self.winner, SELECTED, size)
        selected = replace(random, selects=True)
        found = [
            self.try_out([trial], f"{size.n_active} {how} active rows").get(self.winner)
            for trial, how in ((random, "random"), (selected, "selected"))
        ]
        if found[0] and found[1] and found[0].leads(found[1], CLOSE_ERRORS):
            self.criterion = "random"
        return None not in found

    def _nlpp_of_kinds(
        self, learnt: Mapping[int, Outcome], size: Size, first: int
    ) -> Mapping[int, float]:
        """Return the NLPP that decides between candidates, given their re-estimated kernels.

        If more rows can be fitted than re-estimation uses, as many as possible are fitted, and the
        held-out rows are predicted: a kind that is better on few rows need not be better on many.
        Otherwise the rows that the kernels were learnt from are fitted, and those before them are
        predicted: the NLPP that was minimised is too low, more so with more parameters.
        """
        if len(learnt) == 1:
            return dict.fromkeys(learnt, 0.0)
        trials = [
            self._later_trial(n, REESTIMATED, size, kernel=each.kernel, first=first)
            for n, each in learnt.items()
        ]
        return nlpp_of(self.try_out(trials, f"kinds of kernel on {size.rows} rows"))

    def _reestimated(
        self, numbers: Sequence[int], size: Size, first: int = 0
    ) -> Mapping[int, Outcome]:
        """Re-estimate the length scales of candidates, using the rows from `first` on."""
        how = {"by_column": True, "again": True, "first": first}
        trials = [self._later_trial(n, REESTIMATED, size, **how) for n in numbers]
        return self.try_out(trials, "length scales again")

    def _set_winner(self, number: int, learnt: Mapping[int, Outcome]) -> None:
        """Make a candidate the winner, with its re-estimated kernel."""
        self.winner = number
        self.outcomes = {number: replace(self.outcomes[number], kernel=learnt[number].kernel)}

    def _best_of_kinds(self) -> list[int]:
        """Return the best candidates of up to `MAX_KINDS` kinds that are close to the winner.

        If all of these are sums, and there are more rows than re-estimation uses, the best other
        kind is added: simple kernels such as `additive` may be far better then.

        Kernels that cannot have per-column length scales, such as `linear`, are left out, even the
        winner. Only the winner may have a metric, since the many parameters of a metric were learnt
        from most of the rows that would judge it.
        """
        best: dict[object, int] = {}
        for n in [self.winner, *self._ranking()]:
            is_mixed = self.candidates.known[n].metric != NONE
            can_be = n == self.winner if is_mixed else can_have_ard(self._kernel(n))
            if can_be and self._is_close(n, self.winner):
                best.setdefault(self._kind(n), n)
        kinds = list(best.values())
        kept, others = kinds[:MAX_KINDS], kinds[MAX_KINDS:]
        if self.plan.has_more_rows and all(map(self._is_sum, kept)):
            kept += [n for n in others if not self._is_sum(n)][:1]
        return kept

    def _kernel(self, number: int) -> Kernel:
        return parse(self.outcomes[number].kernel)

    def _kind(self, number: int) -> tuple[str, str, bool, bool]:
        """Return the kind of a candidate: scaling, metric, and whether a sum and rough."""
        _, scaling, metric = self.candidates.known[number]
        is_rough = any(leaf.is_rough for leaf in self._kernel(number).leaves)
        return scaling, metric, self._is_sum(number), is_rough

    def _is_sum(self, number: int) -> bool:
        return isinstance(self._kernel(number), Sum)

    def _is_close(self, number: int, best: int) -> bool:
        """Return whether a candidate is nearly as good as `best`, within `CLOSE_ERRORS`."""
        return not self.outcomes[best].leads(self.outcomes[number], CLOSE_ERRORS)

    def _later_trial(self, number: int, stage: int, size: Size, **more: Any) -> Trial:
        """Return a trial of a candidate with its learnt kernel."""
        trial = Trial.of(number, self.candidates.known[number], stage, size)
        return replace(trial, **{"kernel": self.outcomes[number].kernel, **more})

    def choice(self, ended: str) -> Choice:
        """Return the result of the search."""
        known, nlpp = self.candidates.known[self.winner], None
        if found := self.outcomes.get(self.winner):
            known, nlpp = known._replace(kernel=found.kernel), found.nlpp
        return Choice(*known, self.n_active, self.criterion, nlpp, ended)

    def _best(self) -> int:
        """Return the best candidate, but one with slower fits only if it leads the others."""
        ranking = self._ranking()
        best, plain = ranking[0], [n for n in ranking if n not in self.slower][:1]
        if best not in self.slower or not plain:
            return best
        return best if self.outcomes[best].leads(self.outcomes[plain[0]]) else plain[0]

    def _ranking(self) -> list[int]:
        """Return candidate numbers, best first; failures come last, ties in order of number."""
        nlpp = nlpp_of(self.outcomes)
        return sorted(sorted(nlpp), key=nlpp.__getitem__) or [0]
