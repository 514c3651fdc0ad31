"""Which kernels are tried, on how many rows, and which is chosen, with figures made up."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from sparsegp.learning import search as module
from sparsegp.learning.search import Choice, Outcome, Plan, Trial, counts, search
from sparsegp.learning.space import Candidates

SCALE = np.ones(2)


def test_trials_add_up() -> None:
    for max_trials in (*range(1, 60), 100, 999):
        found = counts(max_trials)
        assert sum(found) == max_trials
        assert len(found) in {1, len(module.SHARES)}
        assert len(found) == 1 or min(found) >= 2
        assert found == sorted(found, reverse=True)
    assert [counts(number) for number in (40, 8, 7)] == [[20, 10, 5, 5], [2, 2, 2, 2], [7]]


@pytest.mark.parametrize("n", [5, 2999, 3001, 12800, 10**6])
def test_rungs_grow_to_the_size_of_the_run(n: int) -> None:
    def validation(rows: int) -> int:
        return rows // 10

    for asked in (1, 40, 5000):
        n_active = min(asked, n - validation(n))
        rungs = Plan.of((n, 300), n_active, 41, validation).rungs
        assert [rung.count for rung in rungs] == counts(40)
        last = min(n, module.MOST_ROWS)
        assert (rungs[-1].rows, rungs[-2].rows) == (last, last)
        assert rungs[-1].n_active == min(n_active, module.MOST_ACTIVE, last - validation(last))
        for before, after in itertools.pairwise(rungs):
            assert before.rows <= after.rows
            assert before.n_active <= after.n_active
        for rung in rungs:
            assert rung.rows >= min(last, module.LEAST_ROWS)
            assert 1 <= rung.n_active <= rung.rows - validation(rung.rows)


def test_sizes_of_a_large_table() -> None:
    rungs = Plan.of((60000, 2), 1000, 42).rungs
    sizes = [(3000, 188), (5333, 334), (16000, 1000), (16000, 1000)]
    assert [(rung.rows, rung.n_active) for rung in rungs] == sizes
    assert Plan.of((60000, 2), 1000, 3).rungs == [module.Rung(16000, 1000, 3)]  # few are on all


@pytest.mark.parametrize(
    ("n", "p", "able"),
    [(2048, 256, True), (2047, 256, False), (9999, 257, False), (400, 2, True), (399, 2, False)],
)
def test_columns_that_can_have_their_own_length_scales(n: int, p: int, able: bool) -> None:
    assert Plan.of((n, p), 20, 40).by_column == able
    assert not Plan.of((n, p), 20, 9).by_column


class Nature:
    """Nlpp of a kernel by its text; trials in order, as many as there is time for."""

    def __init__(self, nlpp: Mapping[str, float] | None = None, time: int = 10**9) -> None:
        self.nlpp, self.time = nlpp or {}, time
        self.trials: list[Trial] = []
        self.leads = True

    def of(self, text: str) -> float:
        return self.nlpp.get(text, 1.0 + len(text) / 1000 + hash_of(text))

    def try_out(self, trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        assert what
        found = {}
        for trial in trials[: max(0, self.time - len(self.trials))]:
            self.trials.append(trial)
            kernel = f"ard of {trial.kernel}" if trial.steps else trial.kernel
            leads = self.leads or not (trial.steps or trial.rival)
            found[trial.number] = Outcome(kernel, self.of(kernel), 0.0, 0.0, 0.0, leads=leads)
        return found


def hash_of(text: str) -> float:
    """A number from 0 to 1 that is the same in every process."""
    return float(np.random.default_rng(list(text.encode())).random())


def outcome(nature: Nature, max_trials: int = 14, n: int = 500) -> Choice:
    candidates = Candidates("50*rbf", SCALE, 0)
    return search(candidates, Plan.of((n, 2), 60, max_trials), nature.try_out)


def test_nothing_is_tried_twice_and_the_kernel_of_the_settings_on_every_rung() -> None:
    nature = Nature()
    outcome(nature)
    sizes = [(t.kernel, t.rows, t.n_active, t.steps, t.rival) for t in nature.trials]
    assert len(set(sizes)) == len(sizes) == 14
    searched, compared = nature.trials[-2:]
    assert (searched.steps, searched.rival, compared.steps) == (module.STEPS, "", 0)
    assert compared.rival == nature.trials[0].kernel
    nature = Nature()
    outcome(nature, n=50000)
    assert [t.rung for t in nature.trials if t.number == 0] == [0, 1, 2]  # the last has its size


def test_the_best_of_the_last_size_is_chosen() -> None:
    nature = Nature()
    found = outcome(nature)
    last = [t for t in nature.trials if t.rows == 500 and not t.rival]
    kernels = [f"ard of {t.kernel}" if t.steps else t.kernel for t in last]
    assert found == Choice(min(kernels, key=nature.of), min(map(nature.of, kernels)), "all rungs")


def test_what_leads_by_chance_is_not_chosen() -> None:
    nature = Nature()
    nature.leads = False
    found, given = outcome(nature), nature.trials[0].kernel
    assert (found.kernel, found.nlpp) == (given, nature.of(given))


@pytest.mark.parametrize("time", [0, 1, 3, 5, 12, 13])
def test_no_rung_counts_that_was_not_completed(time: int) -> None:
    nature = Nature(time=time)
    found = outcome(nature, n=50000)
    assert found.ended == "max_seconds"
    assert len(nature.trials) == time
    rungs = Plan.of((50000, 2), 60, 14).rungs
    complete = [
        place
        for place, rung in enumerate(rungs)
        if sum(trial.rung == place for trial in nature.trials) == rung.count
    ]
    counted = max(complete, default=0)
    kernels = [t.kernel for t in nature.trials if t.rung == counted and not t.steps]
    if time == 0:
        assert (found.kernel, found.nlpp) == (Candidates("50*rbf", SCALE, 0).texts[0], None)
    elif time < 12:
        assert found.kernel == min(kernels, key=nature.of)


def test_failures_come_last_and_the_first_of_equals_first() -> None:
    def try_out(trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        nlpp = [None, 0.5, 0.25, 0.5, 0.25]
        return {t.number: Outcome(t.kernel, nlpp[t.number], 0.0, 0.0, 0.0) for t in trials}

    candidates = Candidates("50*rbf", SCALE, 0)
    found = search(candidates, Plan.of((500, 2), 60, 5), try_out)
    assert (found.kernel, found.nlpp) == (candidates.texts[2], 0.25)
