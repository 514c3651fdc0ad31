"""Which kernels are tried, on how many rows, and which is chosen, with figures made up."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from sparsegp.kernels import parse
from sparsegp.learning import plan as module
from sparsegp.learning.by_column import with_ard, with_warping
from sparsegp.learning.plan import Plan, Size, noise_level
from sparsegp.learning.search import SELECTED, search
from sparsegp.learning.space import MAX_ROUGH_COLUMNS, SAFE, Candidates
from sparsegp.learning.trials import Outcome

GIVEN, ROUGH = "50.0*rbf(1.0)", "30.0*laplace(1.6)"
RULES = {"auto": np.ones(2)}


@dataclass
class Nature:
    """Nlpp of what is tried; trials in order, as many as there is time for.

    The noise is the standard deviation of the log probabilities of a row, another for every trial.
    What is learnt again may have figures of its own.
    """

    nlpp: dict[str, float] = field(default_factory=dict)
    noise: float = 0
    time: int = 10**9
    p: int = 2
    again: dict[str, float] = field(default_factory=dict)
    selected: float = 1.0  # NLPP with selected active rows
    trials: list = field(default_factory=list)

    def of(self, kernel, n_active=0):
        return self.nlpp.get(f"{n_active}", self.nlpp.get(kernel, 1.0 + hash_of(kernel)))

    def try_out(self, trials, what):
        assert what
        found = {}
        for trial in trials[: max(0, self.time - len(self.trials))]:
            self.trials.append(trial)
            is_learnt = trial.by_column and trial.metric == "none"
            kernel = learnt(trial.kernel, self.p) if is_learnt else trial.kernel
            nlpp = self.of(made_of(trial, self.p), trial.n_active)
            nlpp = self.again.get(made_of(trial, self.p), nlpp) if trial.again else nlpp
            nlpp = self.selected if trial.selects else nlpp
            noise = self.noise * unit(len(self.trials))
            figures = (nlpp, 0.0, 0.0, 0.0, "")
            found[trial.number] = Outcome(kernel, *figures, log_p=noise - nlpp)
        return found

    def searched(self, plan, kernel="50*rbf", rules=RULES):
        return search(Candidates(kernel, rules, 0), plan, self.try_out)


def learnt(kernel, p=2):
    """Return what stands for a kernel with a length scale for each of p columns."""
    return str(with_ard(parse(kernel), p))


def made_of(trial, p=2):
    """Return the kernel that a trial makes, or what stands for it under a metric."""
    kernel = learnt(trial.kernel, p) if trial.by_column else trial.kernel
    return kernel if trial.metric == "none" else f"{trial.metric} of {trial.kernel}"


def unit(seed):
    """A thousand numbers of mean 0 and standard deviation 1."""
    found = np.random.default_rng(seed).standard_normal(1000)
    return (found - found.mean()) / found.std()


def hash_of(text):
    """A number from 0 to 1 that is the same in every process."""
    return float(np.random.default_rng(list(text.encode())).random())


def outcome(nature, max_trials=14, n=500, learns_again=False, errors=0.0, held_out=0, **how):
    plan = replace(Plan.of((n, held_out, 2), 60, max_trials, **how), errors=errors)
    plan = plan if learns_again else replace(plan, reestimation=None)
    return nature.searched(plan)


@pytest.mark.parametrize(
    ("n", "p", "able"),
    [(100, MAX_ROUGH_COLUMNS, True), (9999, MAX_ROUGH_COLUMNS + 1, False), (99, 2, False)],
)
def test_columns_that_can_have_their_own_length_scales(n, p, able):
    for max_trials in (None, 1, 40):
        assert Plan.of((n, 0, p), 20, max_trials).by_column == able


@pytest.mark.parametrize("max_trials", [None, 1, 40])
def test_sizes_of_a_search(max_trials):
    plan = Plan.of((60000, 0, 20), 1000, max_trials, sizes=module.ACTIVE_SIZES)
    assert plan.first == Size(module.FIRST_ROWS, module.FIRST_ACTIVE)
    assert plan.count == max_trials
    for n, rows in ((400, 400), (1900, 1900), (5000, 3000)):
        assert Plan.of((n, 0, 20), 1000, max_trials).first.rows == rows
    few = Plan.of((200, 0, 20), 190, max_trials, validation=lambda rows: rows // 10).first
    assert few == Size(200, 180)
    assert plan.sizes == list(module.ACTIVE_SIZES)
    assert [size.n_active for size in plan.grown] == [250, 500, 1000, 2000]
    for n, rows in ((20_000, module.MAX_ROWS), (60_000, 30_000), (10**6, 32_000)):
        plan = Plan.of((n, 0, 20), 1000, max_trials, sizes=module.ACTIVE_SIZES)
        assert {size.rows for size in plan.grown} == {rows}
    assert Plan.of((60000, 0, 20), 200, max_trials).sizes == []  # the number was given
    small = Plan.of((1800, 0, 20), 1000, max_trials, sizes=module.ACTIVE_SIZES)
    assert small.grown == [Size(1800, d) for d in (250, 500, 1000, 1440)]
    assert small.sizes == [1000, 1440]
    nearly_all = Plan.of((1240, 0, 20), 1000, max_trials, sizes=module.ACTIVE_SIZES)
    assert nearly_all.sizes == []
    assert Plan.of((5000, 0, 20), 1000, None, n_classes=0).count == module.REGRESSION_CANDIDATES


def test_nothing_is_tried_twice_and_the_best_of_all_is_chosen():
    nature = Nature()
    found = outcome(nature)
    sizes = [(t.kernel, t.rows, t.n_active, t.by_column, t.metric) for t in nature.trials]
    assert len(set(sizes)) == len(sizes)
    kinds = [(trial.by_column, trial.metric) for trial in nature.trials]
    assert kinds[:14] == [(False, "none")] * 14
    assert {*kinds[14:]} <= {(True, "none"), (False, "full")}
    assert [trial.rung for trial in nature.trials] == [1] * 14 + [2] * (len(sizes) - 14)
    best = min(map(made_of, nature.trials), key=nature.of)
    assert found.metric == ("full" if best.startswith("full") else "none")
    assert nature.of(best) == found.nlpp
    assert best.endswith(found.kernel)
    assert (found.scaling, found.n_active, found.ended) == ("auto", None, "all rungs")


@pytest.mark.parametrize("max_trials", [None, 40])
def test_an_extended_search_learns_from_the_first_candidates_too(max_trials):
    """They may be better starts than the best of many."""
    candidates = Candidates("50*rbf", RULES, 0)
    many = [candidates.known[n].kernel for n in candidates.first(40)]
    first, others = many[: candidates.n_first], many[candidates.n_first :]
    smooth = next(each for each in others if "rbf" in each)
    rough = next(each for each in others if "laplace" in each)
    nature = Nature({smooth: 0.1, rough: 0.1, first[0]: 0.2, first[1]: 0.2})
    outcome(nature, max_trials)
    starts = {trial.kernel for trial in nature.trials if trial.by_column}
    assert {first[0], first[1]} <= starts
    assert ({smooth, rough} <= starts) == (max_trials is not None)


@pytest.mark.parametrize(
    ("gain", "errors", "leads"),
    [
        (0.11, {}, True),
        (0.09, {}, False),
        (0.21, {"errors": 2.0}, True),
        (0.19, {"errors": 2}, False),
    ],
)
def test_a_lead_is_counted_in_standard_errors(gain, errors, leads):
    other = Outcome("rbf", 1.0, None, None, 0.0, log_p=np.zeros(100))
    found = replace(other, log_p=gain + np.tile([1.0, -1.0], 50))  # of standard error 0.1
    assert found.leads(other, **errors) == leads


@pytest.mark.parametrize(
    ("errors", "gain", "leads"), [(2.0, 0.5, True), (2.0, 0.06, False), (0.0, 0.06, True)]
)
def test_the_best_must_lead_a_given_kernel(errors, gain, leads):
    nature = Nature({GIVEN: 0.9, ROUGH: 0.9 - gain}, noise=1.0)  # standard error: 0.045
    found = outcome(nature, 14, 500, errors=errors)
    assert found.kernel == (ROUGH if leads else GIVEN)
    assert found.nlpp == nature.of(found.kernel)


@pytest.mark.parametrize(
    ("n", "gain", "leads"), [(500, 0.2, True), (500, 0.03, False), (1600, 0.03, True)]
)
def test_with_few_rows_the_best_must_lead_a_safe_kernel(n, gain, leads):
    safe, best = (Candidates("50*rbf", RULES, 0).known[number].kernel for number in (SAFE, 2))
    nature = Nature({safe: 0.9, best: 0.9 - gain}, noise=1.0)  # standard error: 0.045
    found = outcome(nature, 14, n)
    assert found.kernel.startswith(best if leads else safe)


@pytest.mark.parametrize(("n", "more"), [(7000, False), (9000, True), (40000, True), (10**6, True)])
def test_more_rows_than_are_reestimated_from(n, more):
    assert Plan.of((n - n // 5, n // 5, 8, n), 1000, None).has_more_rows == more


@pytest.mark.parametrize(("noise", "metric"), [(0.0, "full"), (100.0, "none")])
def test_a_metric_must_lead_all_others(noise, metric):
    nature = Nature(noise=100.0)
    outcome(nature)
    trial = next(trial for trial in nature.trials if trial.metric != "none")
    assert not trial.by_column
    nlpp = {made_of(trial): 0.01, trial.kernel: 0.02, GIVEN: 900.0}
    nature = Nature(nlpp, noise=noise)
    found = outcome(nature)
    assert found.metric == metric
    assert found.nlpp < 900.0


@pytest.mark.parametrize("noise", [0.0, 100.0])
def test_a_sum_must_lead_all_others(noise):
    both = f"{ROUGH} + {GIVEN}"
    nature = Nature({GIVEN: 0.9, ROUGH: 0.1, learnt(ROUGH): 0.05, learnt(both): 0.01}, noise=noise)
    found = outcome(nature, None, n=50000)
    assert found.nlpp is not None
    assert both in [trial.kernel for trial in nature.trials if trial.by_column]
    assert (found.kernel == learnt(both)) == (noise == 0.0)


@pytest.mark.parametrize(
    ("nlpp", "noise", "best"), [(0.04, 0.0, True), (0.04, 100.0, False), (0.06, 100.0, True)]
)
def test_four_length_scales_follow_the_best_and_a_sum_with_them_must_lead_too(nlpp, noise, best):
    both = f"{ROUGH} + {GIVEN}"
    four = str(with_warping(parse(learnt(both if nlpp < 0.05 else ROUGH)), 2))
    figures = {GIVEN: 0.9, ROUGH: 0.1, learnt(ROUGH): 0.05, learnt(both): nlpp, four: 0.01}
    nature = Nature(figures, noise=noise)
    found = outcome(nature, None, n=50000)
    assert [t.kernel for t in nature.trials if t.by_column].count(four) == 1
    assert (found.kernel == four) == best


@pytest.mark.parametrize(
    ("n", "n_classes", "tried"),
    [(1999, 2, False), (2000, 2, True), (999, 0, False), (1000, 0, True)],
)
def test_with_too_few_rows_for_a_sum_a_second_rough_kernel_is_tried(n, n_classes, tried):
    other = "100.0*additive(3.0)"
    nature = Nature({GIVEN: 0.2, ROUGH: 0.1, other: 0.1001}, noise=0.1)
    outcome(nature, None, n, n_classes=n_classes)
    starts = [trial.kernel for trial in nature.trials if trial.by_column]
    assert (f"{ROUGH} + {GIVEN}" in starts, other in starts) == (tried, not tried)


def test_the_parts_of_a_sum_have_the_same_scaling_and_kinds_have_one():
    rules = {"auto": np.ones(2), "quantile": np.full(2, 4.0)}
    rough, smooth = "30.0*laplace(3.2)", "50.0*rbf(2.0)"
    nature = Nature({GIVEN: 0.2, smooth: 0.3, rough: 0.1})
    nature.searched(Plan.of((5000, 0, 2), 60, None), rules=rules)
    sums = [t.kernel for t in nature.trials if t.by_column and t.kernel.startswith(f"{rough} + ")]
    assert sums == [f"{rough} + {smooth}"]
    nature = Nature({ROUGH: 0.1}, noise=10.0)
    nature.searched(Plan.of((5000, 0, 2), 60, None), rules=rules)
    again = [(trial.kernel, trial.scaling) for trial in nature.trials if trial.again]
    assert again[:2] == [(ROUGH, "quantile"), (ROUGH, "auto")]


@pytest.mark.parametrize(
    ("n", "rough", "learns"), [(249, 0.9, False), (249, 0.7, True), (250, 0.9, True)]
)
def test_with_very_few_rows_a_search_may_end_where_the_given_kernel_leads(n, rough, learns):
    nature = Nature({GIVEN: 0.8, ROUGH: rough})
    outcome(nature, None, n)
    assert any(trial.by_column for trial in nature.trials) == learns


@pytest.mark.parametrize(("n", "p", "tried"), [(249, 2, 0), (250, 2, 1), (1500, 19, 1)])
def test_four_length_scales_for_a_column_follow_one(n, p, tried):
    """From what is learnt of a product over columns, also where a mean over them leads at first."""
    rules = {"auto": np.ones(p)}
    candidates = Candidates("50*rbf", rules, 0)
    given, rough, mean = (candidates.known[k].kernel for k in (0, 1, 3))
    one = learnt(rough, p)
    four = str(with_warping(parse(one), p))
    figures = {given: 0.9, mean: 0.1, learnt(mean, p): 0.05, rough: 0.2, one: 0.06, four: 0.01}
    nature = Nature(figures, p=p)
    plan = Plan.of((n, 0, p), 60, None)
    found = search(candidates, plan, nature.try_out)
    assert [t.kernel for t in nature.trials if t.by_column and not t.again].count(four) == tried
    assert [t.kernel for t in nature.trials if t.by_column].count(rough) == tried
    assert found.kernel == (four if tried else learnt(mean, p))


@pytest.mark.parametrize(("nlpp", "near"), [(0.1002, True), (0.107, True), (0.111, False)])
def test_what_is_nearly_as_good_has_a_trial_of_its_own(nlpp, near):
    """Of few rows a second rough kernel by column; a kernel of distances with a metric."""
    other = "100.0*additive(3.0)"
    nature = Nature({GIVEN: 0.9, ROUGH: 0.1, other: nlpp}, noise=0.1)  # standard error: 0.0045
    outcome(nature, None, n=500)
    kernels = {trial.kernel for trial in nature.trials if trial.by_column}
    warped = str(with_warping(parse(ROUGH), nature.p))
    assert kernels == {ROUGH, warped, GIVEN, *([other] if near else [])}
    nature = Nature({GIVEN: nlpp, ROUGH: 0.1}, noise=0.1)
    outcome(nature, None, n=500)
    assert [t.kernel for t in nature.trials if t.metric == "full"] == [GIVEN] * near


@pytest.mark.parametrize(("p", "mixed"), [(256, True), (257, False)])
def test_many_columns_have_length_scales_but_no_metric(p, mixed):
    given, nature = "50.0*rbf(11.3)", Nature({"50.0*rbf(11.3)": 0.1}, p=p)
    nature.searched(Plan.of((300, 0, p), 60, None), given, {"auto": np.ones(p)})
    assert {trial.kernel for trial in nature.trials if trial.by_column} > {given}
    assert [t.kernel for t in nature.trials if t.metric == "full"] == [given] * mixed


@pytest.mark.parametrize("time", [0, 1, 5, 14, 15])
def test_without_time_the_best_so_far_is_taken(time):
    nature = Nature(time=time)
    found = outcome(nature, n=50000)
    assert found.ended == "max_seconds"
    assert len(nature.trials) == time
    if time == 0:
        assert (found.kernel, found.nlpp) == (GIVEN, None)
    else:
        assert found.nlpp == min(map(nature.of, map(made_of, nature.trials)))


def test_failures_come_last_and_the_first_of_equals_first():
    def try_out(trials, what):
        nlpp = [None, 0.5, 0.25, 0.5, 0.25]
        last_first = reversed(trials)  # parallel trials end in any order
        return {t.number: Outcome(t.kernel, nlpp[t.number], 0.0, 0.0, 0.0) for t in last_first}

    candidates = Candidates("50*rbf", RULES, 0)
    found = search(candidates, Plan(Size(500, 60), by_column=False, count=5), try_out)
    assert (found.kernel, found.nlpp) == (candidates.known[2].kernel, 0.25)


@pytest.mark.parametrize(
    ("n", "rows"),
    [(1499, None), (1601, 2001), (7700, 8000), (15600, 8000), (40000, 20200), (99000, 32000)],
)
def test_length_scales_of_the_best_are_learnt_again_from_half_and_from_all_rows(n, rows):
    nature = Nature({GIVEN: 0.1, learnt(GIVEN): 0.2})
    found = outcome(nature, None, n=n, held_out=400, learns_again=True)
    assert found.kernel == (GIVEN if rows is None else learnt(GIVEN))
    again = [t for t in nature.trials if t.again]
    if rows is None:
        assert not again
        return
    half = rows // 2
    sizes = [(t.kernel, t.first, t.rows, t.n_active) for t in again]
    assert sizes == [(GIVEN, half, rows - half, 150), (learnt(GIVEN), 0, rows, 300)]
    assert again == nature.trials[-2:]
    assert all(t.by_column for t in again)


BEST = {GIVEN: 0.1, ROUGH: 0.2, learnt(GIVEN): 0.9, learnt(ROUGH): 0.9, f"full of {GIVEN}": 0.9}
"""The best of two kinds; what is learnt first is worse."""


@pytest.mark.parametrize(
    ("n", "rows", "n_active", "first"), [(5000, 2500, 300, 2500), (20_000, 16000, 150, 0)]
)
@pytest.mark.parametrize(
    ("noise", "rough", "best"),
    [
        (10.0, 0.19, ROUGH),
        (10.0, 0.21, GIVEN),
        (10.0, 0.2, GIVEN),  # the same: the one that was best stays
        (0.0, 0.19, GIVEN),  # the other is not nearly as good
    ],
)
def test_of_two_kinds_the_better_on_other_rows_is_taken(
    noise, rough, best, n, rows, n_active, first
):
    two_fold = {learnt(GIVEN): 0.1, learnt(ROUGH): 0.09}
    more = {learnt(GIVEN): 0.2, learnt(ROUGH): rough}
    nature = Nature({**BEST, **more}, noise=noise, again=two_fold)
    found = outcome(nature, None, n, learns_again=True)
    confirmed = [t for t in nature.trials if t.rung == 4 and not t.again]
    expected = [(kernel, rows, n_active, first) for kernel in more] if noise else []
    assert [(t.kernel, t.rows, t.n_active, t.first) for t in confirmed] == expected
    assert [t.kernel for t in nature.trials if t.again][-1] == learnt(best)
    assert found.kernel == learnt(best)


@pytest.mark.parametrize("n", [5000, 20_000, 40_000])
def test_beside_sums_alone_a_simpler_kernel_is_confirmed_on_more_rows(n):
    smooth = "25.0*rbf(1.0) + 25.0*matern52(1.0)"
    sums = {learnt(smooth): 0.1, learnt(f"{ROUGH} + {smooth}"): 0.101}
    nature = Nature({smooth: 0.2, ROUGH: 0.2, **sums, learnt(ROUGH): 0.102}, noise=10.0)
    nature.searched(Plan.of((n, 0, 2), 60, None), smooth)
    again = [t.kernel for t in nature.trials if t.again and t.first]
    assert again == [*sums, *[learnt(ROUGH)][: n > 8000]]


@pytest.mark.parametrize(("time", "kernel"), [(3, GIVEN), (4, learnt(ROUGH)), (5, learnt(ROUGH))])
def test_without_time_for_all_rows_what_half_of_them_say_is_taken(time, kernel):
    before = Nature(BEST, noise=10.0)
    outcome(before, None, 5000)
    better = {**BEST, learnt(ROUGH): 0.8}
    nature = Nature(better, noise=10.0, time=len(before.trials) + time)
    found = outcome(nature, None, 5000, learns_again=True)
    assert found.kernel == kernel
    assert found.ended == ("all rungs" if time == 5 else "max_seconds")


@pytest.mark.parametrize(("asked", "n_active"), [(20, 300), (600, 600), (5000, 1000)])
def test_they_are_learnt_with_as_many_active_rows_as_a_run_has(asked, n_active):
    plan = Plan.of((9000, 0, 2), asked, None)
    assert plan.reestimation == Size(8000, n_active)
    assert plan.confirmation == Size(9000, n_active // 2)
    assert Plan.of((7700, 300, 2), asked, None).confirmation is None


@pytest.mark.parametrize(
    ("n", "chosen", "size"),
    [
        (60_000, 1000, Size(30_000, 500)),  # more promised too little
        (60_000, 2000, Size(30_000, 1000)),
        (60_000, 4000, Size(15_000, 1000)),
        (20_000, 4000, Size(8000, 1000)),
        (9000, 4000, Size(8000, 1000)),
        (10**6, 4000, Size(32_000, 1000)),
    ],
)
def test_the_last_time_there_are_as_many_active_rows_per_row_as_in_the_model(n, chosen, size):
    plan = Plan.of((min(n, 32_000), 0, 2, n), 4000, None, sizes=module.ACTIVE_SIZES)
    assert plan.last(chosen) == size
    given = Plan.of((min(n, 32_000), 0, 2, n), 4000, None)
    assert given.last(None) == plan.last(4000)
    assert Plan.of((1400, 0, 2), 4000, None).last(None) is None


@pytest.mark.parametrize(
    ("p", "n_classes", "rows"),
    [(125, 2, 8000), (250, 2, 4000), (666, 2, 1501), (667, 2, None), (9, 26, 8000), (9, 100, 2500)],
)
def test_many_columns_or_classes_leave_fewer_rows(p, n_classes, rows):
    size = Plan.of((9000, 0, p), 1000, None, n_classes=n_classes).reestimation
    assert (size and size.rows) == rows


def test_what_cannot_be_learnt_again_gives_way_to_what_can_and_is_nearly_as_good():
    plane = "10.0 + 5.0*linear"
    for noise, best in ((0.0, plane), (10.0, ROUGH)):
        nature = Nature({plane: 0.1, **BEST, GIVEN: 0.9}, noise=noise)
        found = nature.searched(Plan.of((5000, 0, 2), 60, None), plane)
        assert found.kernel == (learnt(best) if best == ROUGH else best)
        assert {t.kernel for t in nature.trials if t.again} <= {ROUGH, learnt(ROUGH)}
        assert plane not in [t.kernel for t in nature.trials if t.metric == "full"]


def test_under_a_metric_a_kernel_is_learnt_again_if_that_is_best():
    mixed = f"full of {GIVEN}"
    nature = Nature({mixed: 0.001, GIVEN: 0.01})
    assert outcome(nature, None, 5000, learns_again=True).metric == "full"
    assert [t.metric for t in nature.trials if t.again] == ["full", "full"]
    nature = Nature({mixed: 0.011, GIVEN: 0.01, learnt(GIVEN): 0.9, ROUGH: 0.012}, noise=10.0)
    outcome(nature, None, 5000, learns_again=True)
    assert {t.kernel for t in nature.trials if t.metric == "full"} == {GIVEN}
    assert [t.kernel for t in nature.trials if t.again][:2] == [GIVEN, ROUGH]
    assert [t.metric for t in nature.trials if t.again] == ["none"] * 3


def test_what_is_to_stay_or_fails_is_not_learnt_again():
    guarded = Nature({GIVEN: 0.01})
    assert outcome(guarded, 14, 5000, learns_again=True, errors=2.0).kernel == GIVEN
    assert not any(t.again for t in guarded.trials)

    class Broken(Nature):
        def try_out(self, trials, what):
            found = super().try_out(trials, what)
            lost = {t.number: Outcome(t.kernel, None, None, None, 0.0, "no") for t in trials}
            return lost if trials[0].again else found

    found = outcome(Broken({GIVEN: 0.01}), None, 5000, learns_again=True)
    assert (found.kernel, found.nlpp, found.ended) == (GIVEN, 0.01, "all rungs")


@pytest.mark.parametrize(
    ("nlpp", "noise", "tried", "n_active", "n_classes"),
    [
        ({"500": 0.6, "1000": 0.5, "2000": 0.459}, 0.0, [500, 1000, 2000], 8000, 3),
        ({"500": 0.6, "1000": 0.5, "2000": 0.461}, 0.0, [500, 1000, 2000], 4000, 3),
        ({"500": 0.6, "1000": 0.5, "2000": 0.49}, 0.0, [500, 1000, 2000], 2000, 3),
        ({"500": 0.6, "1000": 0.5, "2000": 0.497}, 0.0, [500, 1000, 2000], 1000, 3),
        ({"500": 0.6, "1000": 0.5, "2000": 0.49}, 0.4, [500, 1000, 2000], 1000, 3),  # by chance
        ({"500": 0.515, "1000": 0.5}, 0.0, [500, 1000], 2000, 3),
        ({"500": 0.505, "1000": 0.5}, 0.0, [500, 1000], 1000, 3),
        ({"500": 0.5, "1000": 0.6}, 0.0, [500, 1000], 1000, 3),
        ({"250": 0.515, "500": 0.5, "1000": 0.499}, 0.0, [500, 1000], 1000, 3),
        ({"250": 0.505, "500": 0.5, "1000": 0.4}, 0.0, [500], 1000, 3),
        ({"500": 0.53, "1000": 0.5, "2000": 0.497}, 0.0, [500, 1000, 2000], 1000, 0),
        ({"500": 0.53, "1000": 0.5, "2000": 0.493}, 0.0, [500, 1000, 2000], 1000, 0),
        ({"500": 0.53, "1000": 0.5, "2000": 0.487}, 0.0, [500, 1000, 2000], 2000, 0),
    ],
)
def test_more_active_rows_where_they_promise_enough(nlpp, noise, tried, n_active, n_classes):
    """Of numbers, which have no classes, after a trial alone."""
    nature = Nature(nlpp, noise=noise)
    found = outcome(nature, None, 16000, sizes=module.ACTIVE_SIZES, n_classes=n_classes)
    counts = [t.n_active for t in nature.trials if t.n_active >= 500]
    assert list(dict.fromkeys(counts)) == tried
    assert found.n_active == n_active
    assert found.nlpp == nlpp[str(tried[-1])]


@pytest.mark.parametrize(("n", "n_active"), [(16000, 1000), (32000, 1000), (200_000, 2000)])
def test_more_rows_than_trials_have_promise_more(n, n_active):
    nature = Nature({"250": 0.516, "500": 0.507, "1000": 0.501})
    assert outcome(nature, None, n, sizes=module.ACTIVE_SIZES).n_active == n_active


@pytest.mark.parametrize(
    ("selected", "noise", "doubt", "criterion"),
    [
        (0.6, 0.0, 0.4, "random"),
        (0.6, 0.0, 0.51, None),
        (0.49, 0.0, 0.4, None),
        (0.6, 1.0, 0.4, "random"),  # standard error: 0.045
        (0.58, 1.0, 0.4, None),
    ],
)
@pytest.mark.parametrize("sizes", [(), module.ACTIVE_SIZES])
def test_active_rows_are_random_where_those_are_clearly_better(
    selected, noise, doubt, criterion, sizes
):
    figures = {GIVEN: 0.5, "60": 0.5, "250": 0.5, "500": 0.5, "1000": 0.5}
    nature = Nature(figures, noise=noise, selected=selected)
    plan = replace(Plan.of((5000, 0, 2), 60, None, sizes=sizes), doubt=doubt)
    found = nature.searched(replace(plan, reestimation=None))
    assert found.criterion == criterion
    size = (plan.grown[0].rows if sizes else 5000, 500 if sizes else 60)
    tried = [(t.rows, t.n_active, t.selects) for t in nature.trials if t.rung == SELECTED]
    assert tried == [(*size, selects) for selects in (False, True) if doubt < 0.5]
    nature.time = len(nature.trials) - 1
    nature.trials.clear()
    out_of_time = nature.searched(replace(plan, reestimation=None))
    assert (out_of_time.criterion, out_of_time.ended) == (None, "max_seconds")


def test_of_few_rows_most_become_active_and_are_not_random():
    assert Plan.of((1999, 0, 2), 1000, None).selection is None
    assert Plan.of((1500, 500, 2), 1000, None).selection == Size(1500, module.SELECTED_ACTIVE)
    assert Plan.of((1500, 500, 2), 1000, None).doubt == np.inf  # without labels
    nature = Nature({GIVEN: 0.5, "250": 0.5, "500": 0.4, "1000": 0.3}, again={GIVEN: 0.5})
    plan = replace(Plan.of((1778, 445, 2), 1000, None, sizes=(1000, 2000)), doubt=0.0)
    assert plan.selection is not None
    assert nature.searched(replace(plan, reestimation=None)).n_active == 1422
    assert SELECTED not in {trial.rung for trial in nature.trials}


def test_indicators_of_categories_leave_more_rows_to_length_scales():
    def rows(**how):
        return Plan.of((8000, 2000, 350, 10000), 1000, None, **how).reestimation.rows

    assert rows() == 2857
    assert rows(n_scales=350) == 2857
    assert rows(n_scales=200) == 4784
    assert rows(n_scales=15) == 8000


def test_the_largest_number_of_active_rows_needs_no_trial():
    nature = Nature({"500": 0.6, "1000": 0.5})
    found = outcome(nature, None, 1800, sizes=module.ACTIVE_SIZES)
    assert (nature.trials[-1].n_active, found.n_active) == (1000, 1440)


@pytest.mark.parametrize(("nlpp", "n_active"), [(0.197, 1000), (0.12, 3200)])
def test_what_is_learnt_again_gets_more_active_rows(nlpp, n_active):
    """And it is learnt from all rows with many only if a run needs more than the fewest."""
    figures = {"250": 0.3, "500": 0.2, "1000": nlpp, "2000": nlpp / 2}
    nature = Nature({GIVEN: 0.1, **figures})
    found = outcome(nature, None, 4000, learns_again=True, sizes=module.ACTIVE_SIZES)
    again = [(t.kernel, t.first, t.n_active) for t in nature.trials if t.again]
    assert again == [(GIVEN, 2000, 150), (learnt(GIVEN), 0, 150 if n_active == 1000 else 300)]
    assert nature.trials[-1].again
    last = [(t.kernel, t.n_active) for t in nature.trials if t.rung == 5]
    sizes = [250, 500, 1000, 2000][: 3 if n_active == 1000 else 4]
    assert last == [(learnt(GIVEN), d) for d in sizes]
    assert (found.kernel, found.n_active) == (learnt(GIVEN), n_active)


@pytest.mark.parametrize(
    ("n_classes", "noise", "learnt_with"),
    [(0, 10.0, {"auto", "quantile"}), (0, 0.0, {"auto"}), (2, 10.0, {"auto"})],
)
def test_a_regression_learns_with_both_scalings_if_they_are_close(n_classes, noise, learnt_with):
    nature = Nature({GIVEN: 0.1, "50.0*rbf(2.0)": 0.2, ROUGH: 0.9}, noise=noise)
    rules = {"auto": np.ones(2), "quantile": np.full(2, 4.0)}
    nature.searched(Plan.of((800, 0, 2), 60, None, n_classes=n_classes), rules=rules)
    smooth = [t for t in nature.trials if t.by_column and "laplace" not in t.kernel]
    assert {t.scaling for t in smooth if "additive" not in t.kernel} == learnt_with


@pytest.mark.parametrize(
    ("n", "nlpp", "noise", "level", "stages"),
    [
        (1400, {ROUGH: 0.9}, 0.0, 0.75, {1, 2}),
        (1400, {ROUGH: 0.7}, 30.0, 0.75, {1, 2}),  # there is much to learn
        (5000, {ROUGH: 0.9}, 30.0, 0.75, {1, 2}),
        (5000, {ROUGH: 0.9}, 0.0, 0.75, {1, 2}),  # length scales gain nothing
        (5000, {ROUGH: 0.7}, 0.0, 0.75, {1, 2, 4}),
        (5000, {ROUGH: 0.7}, 30.0, 0.75, {1, 2, 4}),
        (5000, {ROUGH: 0.9}, 30.0, None, {1, 2, 4}),
        (5000, {GIVEN: 0.9, learnt(GIVEN): 0.8}, 0.0, 0.75, {1, 2, 4}),  # they gain much
    ],
)
def test_where_labels_are_mostly_noise_it_ends_early(n, nlpp, noise, level, stages):
    nature = Nature(nlpp, noise=noise)
    found = nature.searched(replace(Plan.of((n, 0, 2), 60, None), noise=level))
    assert {trial.rung for trial in nature.trials} == stages
    assert found.ended == "all rungs"


@pytest.mark.parametrize(("doubled", "stages"), [(0.895, {1, 2, 3}), (0.88, {1, 2, 3, 4, 5})])
def test_labels_are_not_noise_if_more_active_rows_gain_much(doubled, stages):
    nature = Nature({ROUGH: 0.9, learnt(ROUGH): 0.9, "250": 0.9, "500": doubled}, noise=0.001)
    plan = replace(Plan.of((5000, 0, 2), 1000, None, sizes=(1000, 2000, 8000)), noise=0.75)
    found = nature.searched(plan)
    assert {trial.rung for trial in nature.trials} == stages
    assert (found.n_active, found.ended) == (1000, "all rungs")
    assert found.nlpp == nature.of(ROUGH, [t for t in nature.trials if not t.again][-1].n_active)
    before = next(i for i, trial in enumerate(nature.trials) if trial.rung == 3)
    for time in range(before, len(nature.trials)):
        assert replace(nature, trials=[], time=time).searched(plan).ended == "max_seconds"


@pytest.mark.parametrize("gain", [0.0, 0.3])
def test_where_nothing_leads_the_linear_kernels_one_laplace_is_learnt_first(gain):
    """If there is much to learn then, the other kernels get length scales too."""
    nature = Nature({GIVEN: 0.95, ROUGH: 0.9, learnt(ROUGH): 0.9 - gain}, noise=30.0)
    plan = replace(Plan.of((1400, 0, 2), 60, None), noise=0.75)
    found = nature.searched(plan)
    first, *others = [trial.kernel for trial in nature.trials if trial.by_column]
    assert first == ROUGH
    assert (GIVEN in others) == (gain > 0.0)
    assert ROUGH not in others
    assert found.ended == "all rungs"
    before = len(nature.trials) - len(others) - 1
    for time in range(before, len(nature.trials)):
        assert replace(nature, trials=[], time=time).searched(plan).ended == "max_seconds"


def test_labels_of_many_classes_are_noise_only_near_their_entropy():
    assert noise_level(np.array([5.0, 5.0])) == pytest.approx(0.75 * np.log(2.0))
    assert noise_level(np.array([2.0, 0.0, 2.0])) == noise_level(np.array([1.0, 1.0]))
    assert noise_level(np.ones(4)) == pytest.approx(0.95 * np.log(4.0))
