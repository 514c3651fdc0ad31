"""A search whose trials have figures made up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsegp.kernels import parse
from sparsegp.learning.by_column import with_ard
from sparsegp.learning.plan import Plan
from sparsegp.learning.search import Choice, search
from sparsegp.learning.space import Candidates
from sparsegp.learning.trials import Outcome, Trial

RULES = {"auto": np.ones(2)}


@dataclass
class Nature:
    """Nlpp of what is tried; trials in order, as many as there is time for.

    The noise is the standard deviation of the log probabilities of a row, another for every trial.
    What is learnt again may have figures of its own.
    """

    nlpp: Mapping[str, float] = field(default_factory=dict)
    noise: float = 0
    time: int = 10**9
    p: int = 2
    again: Mapping[str, float] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    def of(self, kernel: str, n_active: int = 0) -> float:
        return self.nlpp.get(f"{n_active}", self.nlpp.get(kernel, 1.0 + hash_of(kernel)))

    def try_out(self, trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        assert what
        found = {}
        for trial in trials[: max(0, self.time - len(self.trials))]:
            self.trials.append(trial)
            is_learnt = trial.by_column and trial.metric == "none"
            kernel = learnt(trial.kernel, self.p) if is_learnt else trial.kernel
            nlpp = self.of(made_of(trial, self.p), trial.n_active)
            nlpp = self.again.get(made_of(trial, self.p), nlpp) if trial.again else nlpp
            noise = self.noise * unit(len(self.trials))
            figures = (nlpp, 0.0, 0.0, 0.0, "")
            found[trial.number] = Outcome(kernel, *figures, log_p=noise - nlpp)
        return found


def learnt(kernel: str, p: int = 2) -> str:
    """Return what stands for a kernel with a length scale for each of p columns."""
    return str(with_ard(parse(kernel), p))


def made_of(trial: Trial, p: int = 2) -> str:
    """Return the kernel that a trial makes, or what stands for it under a metric."""
    kernel = learnt(trial.kernel, p) if trial.by_column else trial.kernel
    return kernel if trial.metric == "none" else f"{trial.metric} of {trial.kernel}"


def unit(seed: int) -> np.ndarray:
    """A thousand numbers of mean 0 and standard deviation 1."""
    found = np.random.default_rng(seed).standard_normal(1000)
    return np.asarray((found - found.mean()) / found.std())


def hash_of(text: str) -> float:
    """A number from 0 to 1 that is the same in every process."""
    return float(np.random.default_rng(list(text.encode())).random())


def outcome(
    nature: Nature,
    max_trials: int | None = 14,
    n: int = 500,
    learns_again: bool = False,
    errors: float = 0.0,
    **how: Any,
) -> Choice:
    plan = replace(Plan.of((n, 2), 60, max_trials, **how), errors=errors)
    plan = plan if learns_again else replace(plan, reestimation=None)
    return search(Candidates("50*rbf", RULES, 0), plan, nature.try_out)
