"""Learning by the evidence, as a whole: however it is run or cut short."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.errors import Interrupted, NumericalError, SettingsError
from sparsegp.execution import open_runtime
from sparsegp.kernels import parse
from sparsegp.run_directory import RunDirectory
from sparsegp.training.learning import FARTHEST
from sparsegp.training.progress import Quiet
from tests.processes import environment, wait_until
from tests.runs import begun, outcome

BINARY: dict[str, Any] = {
    "likelihood": "probit",
    "n_active": 40,
    "learn": "evidence",
    "major_steps": 3,
    "minor_steps": 4,
    "hyperprior": "v: lognormal(-1, 1); bias: normal(0, 25)",
}
REGRESSION: dict[str, Any] = {
    "task": "regression",
    "n_active": 60,
    "kernel": "1*ard",
    "learn": "evidence",
    "major_steps": 6,
}
PAIRS: dict[str, Any] = {
    "active_per_class": True,
    "n_active": 45,
    "learn": "evidence",
    "major_steps": 2,
    "minor_steps": 3,
    "hyperprior": "v: lognormal(-1, 1); bias: normal(0, 25)",
}
SHARED: dict[str, Any] = {
    **PAIRS,
    "active_per_class": False,
    "sites": "moments",
    "kernel_per_class": True,
    "n_active": 25,
    "kernel": "3*rbf; 2*matern52; 1*ard",
}
MODELS = {"binary": BINARY, "a set a class": PAIRS, "one set": SHARED}

every_model = pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)


def rows(numbers: bool = False, n: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """Two of six columns matter."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 6))
    latent = np.sin(2.0 * X[:, 1]) + 0.7 * X[:, 4]
    if numbers:
        return X, latent + 0.1 * rng.normal(size=n)
    return X, (latent + 0.3 * rng.normal(size=n) > 0.3).astype(int)


def labelled(settings: dict[str, Any], n: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes, or of three."""
    if settings is BINARY:
        return rows(n=n)
    X, numbers = rows(numbers=True, n=n)
    return X, np.digitize(numbers, [-0.5, 0.7])


def learnt(model: sparsegp.Model) -> list[dict[str, Any]]:
    return list(model.span.report["learning"])


@every_model
def test_every_major_step_goes_down_while_the_rows_stay(settings: dict[str, Any]) -> None:
    model = sparsegp.train(*labelled(settings), **settings)
    steps = learnt(model)
    assert len(steps) == settings["major_steps"]
    for step in steps:
        assert (np.diff(step["criterion"]) <= 1e-9 * abs(step["criterion"][0])).all()
        assert len(step["criterion"]) <= 5
    assert steps[-1]["kernel"] != steps[0]["kernel"]


@every_model
@pytest.mark.parametrize("calibration", ["none", "learned"])
def test_the_last_parameters_are_taken_or_those_that_tell_rows_kept_aside_best(
    settings: dict[str, Any], calibration: str
) -> None:
    model = sparsegp.train(*labelled(settings), **{**settings, "calibration": calibration})
    steps = learnt(model)
    taken = np.concatenate([kernel.parameters() for kernel in model.active.kernels])
    if calibration == "none":
        kernels = [parse(text).parameters() for text in steps[-1]["kernel"].split("; ")]
        assert_allclose(taken, np.concatenate(kernels), rtol=1e-12)
        return
    told = [step["aside_nlpp"] for step in steps]
    assert model.span.report["aside_nlpp"] <= min(told)
    if model.span.report["aside_nlpp"] in told:
        best = steps[int(np.argmin(told))]["start"]
        assert_allclose(taken, best[: len(taken)], rtol=1e-12)


@pytest.mark.parametrize("strategy", ["constant", "hybrid", "exact", "whole"])
def test_learning_helps(strategy: str) -> None:
    X, y = rows()
    X_new, y_new = rows(n=1400)
    X_new, y_new = X_new[700:], y_new[700:]
    settings = {**BINARY, "strategy": strategy, "major_steps": 8, "calibration": "none"}
    settings["kernel"] = "0.3*rbf(0.7)"
    before = sparsegp.train(X, y, **{**settings, "learn": "none"})
    after = sparsegp.train(X, y, **settings)
    nlpp = [
        -model.predict_log_proba(X_new)[np.arange(700), y_new].mean() for model in (before, after)
    ]
    assert nlpp[1] < nlpp[0] - 0.03


def test_learning_helps_several_classes() -> None:
    X, y = labelled(PAIRS)
    X_new, y_new = (array[700:] for array in labelled(PAIRS, n=1400))
    settings = {**PAIRS, "n_active": 120, "major_steps": 4, "calibration": "none"}
    settings["kernel"] = "0.3*rbf(0.7)"
    before = sparsegp.train(X, y, **{**settings, "learn": "none"})
    after = sparsegp.train(X, y, **settings)
    nlpp = [
        -model.predict_log_proba(X_new)[np.arange(700), y_new].mean() for model in (before, after)
    ]
    assert nlpp[1] < nlpp[0] - 0.03
    biases = np.array(after.active.likelihood.parameters())
    assert abs(biases.sum()) < 1e-6 * np.abs(biases).max()  # their mean says nothing


def test_relevant_columns_are_found() -> None:
    X, y = rows(numbers=True)
    model = sparsegp.train(X, y, **REGRESSION)
    (kernel,) = model.active.kernels
    scales = np.exp(kernel.parameters()[1:])
    assert set(np.argsort(scales)[:2]) == {1, 4}
    others = np.delete(scales, [1, 4])
    assert others.min() > 4.0 * scales[[1, 4]].max()
    noise = model.active.likelihood.noise_variance * model.numbers.scale**2
    assert_allclose(noise, 0.01, rtol=0.35)


@every_model
def test_same_bits_for_any_blocks_and_workers(settings: dict[str, Any]) -> None:
    X, y = labelled(settings)
    expected = sparsegp.train(X, y, threads=1, **settings)
    with open_runtime(workers=2) as runtime:
        for way in ({"threads": 2, "block_rows": 256}, {"runtime": runtime, "block_rows": 256}):
            model = sparsegp.train(X, y, **settings, **way)
            assert learnt(model) == learnt(expected)
            assert_array_equal(model.rows, expected.rows)
            assert_array_equal(model.predict_log_proba(X), expected.predict_log_proba(X))


@pytest.mark.parametrize("cuts", [(1, 8), (17, 3, 4, 25), (16, 30, 20)])
def test_resumed_equals_uninterrupted(
    cuts: tuple[int, ...], tmp_path: Path, stop_after: Any
) -> None:
    X, y = rows()
    expected = sparsegp.train(X, y, **BINARY)
    for cut in cuts:
        _cut_short(X, y, BINARY, tmp_path, stop_after(cut))
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **BINARY)
    assert_same(model, expected, X)
    again = sparsegp.load(tmp_path)
    assert learnt(again) == learnt(expected)


@pytest.mark.parametrize(
    ("settings", "cuts"), [(PAIRS, (47, 25)), (SHARED, (14, 7))], ids=["a set a class", "one set"]
)
def test_several_processes_resumed_equal_uninterrupted(
    settings: dict[str, Any], cuts: tuple[int, int], tmp_path: Path, stop_after: Any
) -> None:
    X, y = labelled(settings)
    expected = sparsegp.train(X, y, **settings)
    done = [_cut_short(X, y, settings, tmp_path, stop_after(cut)) for cut in cuts]
    (steps, evaluated, active), (more_steps, none, some) = done
    assert (steps, more_steps) == (0, 1)
    assert (evaluated > 1, active) == (True, settings["n_active"])  # in the middle of the descent
    assert (none, 0 < some < settings["n_active"]) == (0, True)  # and of the next selection
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **settings)
    assert_same(model, expected, X)


def assert_same(model: sparsegp.Model, expected: sparsegp.Model, X: np.ndarray) -> None:
    assert learnt(model) == learnt(expected)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(outcome(model, X), outcome(expected, X))


def _cut_short(
    X: np.ndarray, y: np.ndarray, settings: dict[str, Any], path: Path, stop: Any
) -> tuple[int, int, int]:
    """Return major steps made, evaluations of the next one, and active rows."""
    with begun(X, y, settings, path, threads=1) as run:
        try:
            run.learn(stop)
            run.select(stop)
        except Interrupted:
            record = run.learnt.record
            return len(run.learnt.trace), 0 if record is None else len(record), len(run.active)
        pytest.fail("the run came to its end")


KILLED: dict[str, Any] = {**BINARY, "n_active": 60, "major_steps": 2, "minor_steps": 30}
ONE_RUN = """
import json, sys
import numpy as np
import sparsegp
from sparsegp.training import learning

learning.SHARE = np.inf  # a checkpoint after every evaluation
data, out, settings = sys.argv[1:]
arrays = np.load(data)
sparsegp.train(arrays["X"], arrays["y"], out=out, resume=True, threads=1, **json.loads(settings))
"""


def test_killed_in_the_middle_of_a_descent(tmp_path: Path) -> None:
    """By SIGKILL, twice; what was evaluated before is not evaluated again."""
    X, y = rows(n=2000)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    settings = KILLED
    expected = sparsegp.train(X, y, **settings)
    out, evaluated = tmp_path / "run", 0
    arguments = (tmp_path / "rows.npz", out, json.dumps(settings))
    for _ in range(2):
        least = settings["n_active"] + evaluated + 3  # the number of a checkpoint of the first step
        with subprocess.Popen(
            [sys.executable, "-c", ONE_RUN, *map(str, arguments)], env=environment()
        ) as process:
            reached = wait_until(lambda least=least: newest(out) >= least, 60)
            process.kill()
        assert reached, "no such checkpoint was written"
        found = RunDirectory(out, 2, pytest.fail).load()
        assert found is not None
        assert len(found[1].arrays["rows"]) == settings["n_active"]
        assert found[1].meta["learning"] == []
        assert len(found[1].arrays["record_values"]) > evaluated
        evaluated = len(found[1].arrays["record_values"])
    model = sparsegp.train(X, y, out=out, resume=True, **settings)
    assert_same(model, expected, X)


def newest(run: Path) -> int:
    """Return the number of the newest checkpoint, or zero."""
    return max((int(path.name) for path in run.glob("checkpoints/[0-9]*")), default=0)


# -- bounds ----------------------------------------------------------------------------------------


def told_exactly(rare: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels without noise."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    latent = X[:, 0] + 0.5 * X[:, 1]
    return X, (latent > 1.5 * rare).astype(int)


def inside(step: dict[str, Any], first: dict[str, Any]) -> bool:
    return bool(np.abs(np.subtract(step["start"], first["start"])).max() <= FARTHEST * (1 + 1e-12))


@pytest.mark.parametrize(
    ("strategy", "rare"),
    [("constant", False), ("hybrid", False), ("exact", False), ("whole", False), ("hybrid", True)],
)
def test_labels_without_noise_end_at_a_bound(strategy: str, rare: bool) -> None:
    X, y = told_exactly(rare)
    said = Said()
    settings = {**BINARY, "hyperprior": "", "major_steps": 7, "minor_steps": 8}
    model = sparsegp.train(
        X, y, **settings, strategy=strategy, calibration="none", kernel="10*rbf", progress=said
    )
    steps = learnt(model)
    assert len(steps) == 7
    assert "constant.value" in steps[-1]["bounded"]  # any larger variance tells them as well
    for step in steps:
        assert inside(step, steps[0])
    (kernel,) = model.active.kernels
    reached = kernel.parameters()[0] - np.log(10.0)
    assert_allclose(reached, FARTHEST, rtol=1e-12)
    told = [text for text in said.messages if "learning took" in text]
    assert [text.count("constant.value") for text in told if "constant.value" in text] == [1]
    assert (model.predict(X) != y).mean() < 0.02


@pytest.mark.parametrize("kernel", ["1*rbf", "1*ard", "1*linear"])
def test_numbers_without_noise_end_at_a_bound(kernel: str) -> None:
    X, _ = told_exactly()
    numbers = X[:, 0] + 0.5 * X[:, 1]
    settings = {**REGRESSION, "kernel": kernel, "n_active": 40, "major_steps": 5}
    settings["precision"] = "float64"
    model = sparsegp.train(X, numbers, **settings)
    assert "gaussian.log_noise_variance" in learnt(model)[-1]["bounded"]
    assert_allclose(model.active.likelihood.noise_variance, 0.1 * np.exp(-FARTHEST), rtol=1e-12)
    assert_allclose(model.predict(X), numbers, atol=0.05)


def test_a_hyperprior_keeps_parameters_from_their_bounds() -> None:
    X, y = rows()
    assert not any("bounded" in step for step in learnt(sparsegp.train(X, y, **BINARY)))


def test_bounds_are_those_of_the_first_start_after_a_resume(
    tmp_path: Path, stop_after: Any
) -> None:
    X, y = told_exactly()
    settings = {**BINARY, "hyperprior": "", "major_steps": 3, "minor_steps": 6}
    settings |= {"strategy": "whole", "calibration": "none", "kernel": "10*rbf"}
    expected = sparsegp.train(X, y, **settings)
    assert learnt(expected)[-1]["bounded"]
    assert _cut_short(X, y, settings, tmp_path, stop_after(40))[0] > 0
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **settings)
    assert_same(model, expected, X)


def test_no_row_to_begin_with_is_said() -> None:
    with pytest.raises(NumericalError, match=r"sites of precision above 1e\+06, found none with"):
        sparsegp.train(*rows(), **{**BINARY, "epsilon": 1e6})


class Said(Quiet):
    """Progress that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


REFUSED = {
    "sites": ({"learn": "evidence"}, "learn=evidence needs sites=moments"),
    "classes": (
        {**PAIRS, "strategy": "whole"},
        "strategy=whole is for likelihoods of one latent value, got multinomial_probit",
    ),
    "name": ({**BINARY, "learn": "love"}, "learn must be none or evidence, got 'love'"),
    "steps": ({**BINARY, "major_steps": 0}, "major_steps must be at least 1, got 0"),
    "strategy": ({**BINARY, "strategy": "wild"}, "unknown inner strategy 'wild'"),
    "hyperprior": ({**BINARY, "hyperprior": "v = 3"}, "a hyperprior must be a quantity"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_learnt_is_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises(SettingsError, match=message):
        sparsegp.train(*rows(), **settings)
