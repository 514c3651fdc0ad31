"""Classifiers side by side, each in a process of its own."""

import csv
import json
import os
import signal
import sys
import threading

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn import svm
from sklearn.linear_model import LogisticRegression

import sparsegp
from sparsegp.errors import DataError, Interrupted, SettingsError, SparseGPError
from sparsegp.kernels import parse
from sparsegp.report import NullProgress, evaluate
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.contest import measure
from sparsegp.reproduce.contestants import linear, rival
from sparsegp.reproduce.sources import Drawn

PIPELINE = """
kind = "benchmark"
title = "Benchmark"
[data.small]
name = "toy"
n_train = 300
n_test = 200
[data.file]
origin = "nowhere"
[[data.file.files]]
train = "rows.npz"
[train]
n_active = 40
posterior = "all"
tolerance = 1e-3
[[variants]]
name = "ours"
data = "small"
rival = "nystroem"
[[variants]]
name = "nystroem"
data = "small"
model = "nystroem-logistic"
C = 100
scaling = "standard"
[[variants]]
name = "svc"
data = "small"
model = "svc"
C = 10
gamma = 0.3
scaling = "none"
[[variants]]
name = "linear"
data = "small"
model = "logistic"
C = 0.1
[[variants]]
name = "file"
data = "file"
[[goals]]
variant = "ours"
what = "CPU seconds / rival"
at_most = 1e6
[[goals]]
variant = "ours"
what = "test error %"
at_most = 0
"""
JUDGED = ["test error %", "test NLPP", "test Brier score", "test ECE", "test information bits"]
MEASURED = [*JUDGED, "CPU seconds"]
STAGES = ["selection, CPU seconds", "posterior, CPU seconds"]
COLUMNS = [*MEASURED, *STAGES, "peak memory, MiB", "CPU seconds / rival"]


@pytest.fixture
def pipeline(tmp_path):
    """A function that writes the pipeline with replacements and returns its path."""

    def write(*replacements):
        text = PIPELINE
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "bench.toml"
        path.write_text(text)
        return path

    return write


def cell_of(path, variant):
    return next(cell for cell in read_pipeline(path).cells if cell.variant == variant)


@pytest.fixture
def in_processes(pipeline, tmp_path):
    """The outcome of three cells, in real processes."""
    out = tmp_path / "out"
    return out, reproduce(pipeline(), out=out, cells="[!lf]*")


def test_table_of_models(in_processes, pipeline):
    out, outcome = in_processes
    assert outcome.run == ["ours-0", "nystroem-0", "svc-0"]
    with (out / "summary.csv").open(newline="") as file:
        rows = {row["variant"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["ours", "nystroem", "svc"]
    assert list(rows["ours"]) == ["variant", "data", "model", "settings", *COLUMNS]
    ours, rival, svc = rows.values()
    assert [row["model"] for row in rows.values()] == [
        "sparsegp",
        "Nystroem + LogisticRegression",
        "SVC",
    ]
    assert ours["settings"].startswith("d=40, 50.0*rbf(")
    assert ours["settings"].endswith(" inputs standard, predictive, panel 16, all")
    assert rival["settings"] == "d=40, gamma=0.1, C=100, inputs standard"
    assert svc["settings"] == "gamma=0.3, C=10, inputs none"
    for row in rows.values():
        assert 0 < float(row["test error %"]) < 70
        assert 0 < float(row["CPU seconds"]) < 30
        assert 20 < float(row["peak memory, MiB"]) < 2000
    for row in (ours, rival):
        assert 0 < float(row["test NLPP"]) < 1.5
        assert 0 < float(row["test ECE"]) < 0.5
    assert svc["test NLPP"] == svc["test Brier score"] == svc["test ECE"] == ""
    stages = [float(ours[name]) for name in STAGES]
    assert min(stages) > 0
    assert sum(stages) < float(ours["CPU seconds"])
    assert [rival[name] for name in STAGES] == ["", ""]
    ratio = float(ours["CPU seconds"]) / float(rival["CPU seconds"])
    assert float(ours["CPU seconds / rival"]) == pytest.approx(ratio)
    assert rival["CPU seconds / rival"] == ""
    lines = outcome.lines()
    assert lines[2].split()[:4] == ["variant", "data", "model", "settings"]
    assert "<= 1e+06, met" in "\n".join(lines)
    assert "<= 0, missed" in "\n".join(lines)
    assert "3 of 5 cells finished" in lines[-1]
    assert outcome.to_json()["summary"][0]["variant"] == "ours"

    # Finished cells stay, and other settings of ours leave the rivals' as they are.
    assert reproduce(pipeline(), out=out, cells="[!lf]*").run == []
    changed = pipeline(("tolerance = 1e-3", "tolerance = 1e-3\npanel = 8"))
    assert reproduce(changed, out=out, cells="[!lf]*").run == ["ours-0"]
    changed = pipeline(("gamma = 0.3", "gamma = 0.2"))
    assert reproduce(changed, out=out, cells="svc*").run == ["svc-0"]


def test_every_process_has_one_thread(pipeline, tmp_path, monkeypatch):
    seen = []

    def answer(module, cell, bench, environment):
        seen.append((module, environment["OPENBLAS_NUM_THREADS"], environment["OMP_NUM_THREADS"]))
        return {"figures": {"error": 0.5, "cpu_s": 1.0, "peak_bytes": 1}, "settings": ""}

    monkeypatch.setattr("sparsegp.reproduce.kinds.benchmark.answer_of", answer)
    outcome = reproduce(pipeline(), out=tmp_path / "out", cells="ours-0")
    assert seen == [("sparsegp.reproduce.contest", "1", "1")]
    ratio = next(row for row in outcome.rows if row.what == "CPU seconds / rival")
    assert ratio.ours is None  # the rival has not been run


class TestMeasure:
    def data(self, path):
        cell = cell_of(path, "svc")
        assert isinstance(cell.source, Drawn)
        data = cell.source.load(None, cell.data_seed)
        train, test = data.train, data.test
        return np.asarray(train.X), train.y, np.asarray(test.X), test.y

    def test_ours(self, pipeline):
        path = pipeline()
        X, y, X_test, y_test = self.data(path)
        cell = cell_of(path, "ours")
        found = measure(cell, None, NullProgress())
        model = sparsegp.train(X, y, threads=1, **cell.settings.to_json())
        codes = np.searchsorted(model.classes, y_test)
        expected = evaluate(model.predict_log_proba(X_test), codes, model.classes)
        for name in ("error", "nlpp", "brier", "ece"):
            assert found["figures"][name] == getattr(expected, name)
        assert (found["n_train"], found["n_test"]) == (300, 200)
        assert found["details"]["posterior"] == model.report

    def test_support_vector_machine(self, pipeline):
        path = pipeline()
        X, y, X_test, y_test = self.data(path)
        figures = measure(cell_of(path, "svc"), None, NullProgress())["figures"]
        expected = svm.SVC(C=10, gamma=0.3).fit(X, y)
        assert figures["error"] == pytest.approx(1 - expected.score(X_test, y_test))
        assert not {"nlpp", "brier", "ece"} & set(figures)

    def test_linear(self, pipeline):
        path = pipeline()
        X, y, X_test, y_test = self.data(path)
        X_test, X = (X_test - X.mean(axis=0)) / X.std(axis=0), (X - X.mean(axis=0)) / X.std(axis=0)
        found = measure(cell_of(path, "linear"), None, NullProgress())
        expected = LogisticRegression(C=0.1).fit(X, y)
        logs = expected.predict_log_proba(X_test)
        nlpp = -logs[np.arange(len(y_test)), np.searchsorted(expected.classes_, y_test)].mean()
        assert found["figures"]["nlpp"] == pytest.approx(nlpp, rel=1e-3)
        assert found["settings"] == "C=0.1, inputs standard"
        assert found["details"]["iterations"] > 0

    def test_double_precision(self, pipeline):
        path = pipeline(('"logistic"\nC = 0.1', '"logistic"\nC = 0.1\nprecision = "float64"'))
        found = measure(cell_of(path, "linear"), None, NullProgress())
        assert found["figures"]["nlpp"] > 0

    def test_rivals_must_converge(self, pipeline, monkeypatch):
        for module in (linear, rival):
            monkeypatch.setattr(module, "MAX_ROUNDS", 2)
        with (
            pytest.warns(UserWarning, match="failed to converge"),
            pytest.raises(SparseGPError, match="did not converge within 2 rounds"),
        ):
            measure(cell_of(pipeline(), "linear"), None, NullProgress())

    def test_test_rows_are_needed(self, pipeline, tmp_path):
        np.savez(tmp_path / "rows.npz", X=np.eye(4), y=np.array([0, 1, 0, 1]))
        cell = cell_of(pipeline(), "file")
        with pytest.raises(DataError, match="has no test rows; a pipeline needs them"):
            measure(cell, tmp_path, NullProgress())


AS_SVGP = ('"logistic"\nC = 0.1', '"svgp"\nepochs = 15\nbatch = 100\nscaling = "none"')


class TestSVGP:
    """A rival of another library, the extra `rivals`."""

    def test_without_the_library(self, pipeline, monkeypatch):
        monkeypatch.setitem(sys.modules, "gpytorch", None)  # as where it is not installed
        monkeypatch.delitem(sys.modules, "sparsegp.reproduce.variational", raising=False)
        with pytest.raises(SettingsError) as caught:
            measure(cell_of(pipeline(AS_SVGP), "linear"), None, NullProgress())
        message = str(caught.value)
        assert message.startswith("the model svgp needs gpytorch (")
        assert message.endswith('; install it by pip install "sparsegp[rivals]"')
        assert "\n" not in message

    def test_measured(self, pipeline):
        pytest.importorskip("gpytorch")
        found = measure(cell_of(pipeline(AS_SVGP), "linear"), None, NullProgress())
        assert found["settings"] == (
            "d=40, diagonal covariances, 15 epochs of batches of 100, rate 0.02, inputs none"
        )
        assert found["details"]["iterations"] == 15 * 3
        assert {"error", "nlpp", "brier", "ece", "cpu_s"} <= set(found["figures"])

    @pytest.mark.parametrize("full", [False, True])
    def test_probabilities(self, full, monkeypatch):
        """Latent moments by dense formulas; probabilities nearly as good as the true ones."""
        pytest.importorskip("gpytorch")
        from sparsegp.reproduce import variational  # noqa: PLC0415

        rng = np.random.default_rng(0)
        centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
        y = rng.integers(0, 3, size=1500)
        X = centres[y] + rng.standard_normal((1500, 2))
        true = log_softmax(-0.5 * ((X[:, None] - centres) ** 2).sum(axis=2), axis=1)
        X_test, y_test = X[1000:], y[1000:]
        model = variational.VariationalClassifier(20, 25, 200, 0.05, full, 0)
        model.fit(X[:1000], y[:1000])
        logs = model.predict_log_proba(X_test)

        rows = np.arange(500)
        assert -logs[rows, y_test].mean() < -true[1000:][rows, y_test].mean() + 0.03
        assert (model.predict(X_test) == logs.argmax(axis=1)).all()
        np.testing.assert_array_equal(model.predict_log_proba(X_test), logs)
        monkeypatch.setattr(variational, "SAMPLES", 10_000)  # a standard error of at most 0.005
        found = np.exp(model.predict_log_proba(X_test[:60]))
        np.testing.assert_allclose(found, expected_softmax(model, X_test[:60]), atol=0.02)

    def test_needs_enough_rows(self):
        pytest.importorskip("gpytorch")
        from sparsegp.reproduce.variational import VariationalClassifier  # noqa: PLC0415

        with pytest.raises(SettingsError, match="n_active=9 exceeds the 8 training rows; lower"):
            VariationalClassifier(9, 1, 4, 0.1, False, 0).fit(np.eye(8), np.arange(8) % 2)


def expected_softmax(model, X):
    """Return mean probabilities by dense formulas and 20000 draws, kernel and q(u) given."""
    state = {name: value.numpy() for name, value in model._model.state_dict().items()}
    one = "variational_strategy.base_variational_strategy."
    Z = state[f"{one}inducing_points"]
    q = f"{one}_variational_distribution."
    if f"{q}chol_variational_covar" in state:
        roots = np.tril(state[f"{q}chol_variational_covar"])
    else:
        roots = np.stack([np.diag(deviations) for deviations in state[f"{q}_variational_stddev"]])
    kernel = parse(model.kernel_)
    L = np.linalg.cholesky(kernel(Z, Z) + 1e-6 * np.eye(len(Z)))
    W = np.linalg.solve(L, kernel(Z, X))
    mean = state[f"{q}variational_mean"] @ W
    spread = kernel.diag(X) - (W**2).sum(axis=0)
    variance = spread + (np.einsum("kji,jn->kin", roots, W) ** 2).sum(axis=1)
    draws = np.random.default_rng(1).standard_normal((20000, *mean.shape))
    total = np.zeros(mean.shape)
    for drawn in np.array_split(draws, 40):
        total += softmax(mean + np.sqrt(variance) * drawn, axis=1).sum(axis=0)
    return total.T / len(draws)


def test_errors_of_the_process_are_passed_on(pipeline, tmp_path):
    with pytest.raises(SparseGPError, match=r"bench.toml needs rows.npz, from nowhere"):
        reproduce(pipeline(), out=tmp_path / "out", cells="file-0")


def test_can_be_stopped(pipeline, tmp_path):
    path, out = pipeline(("n_train = 300", "n_train = 3000000")), tmp_path / "out"
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with pytest.raises(Interrupted, match="stopped by SIGTERM at ours-0; the same command goes"):
        reproduce(path, out=out, cells="ours-0")
    timer.join()
    assert not list(out.glob("cells/*"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('model = "svc"', 'model = "svm"', "variants[2].model is 'svm'; known: discriminant, l"),
        ("C = 10\n", "", "variants[2].C is missing; it is a number"),
        ("gamma = 0.3", 'gamma = "scale"', "variants[2].gamma must be a number, got 'scale'"),
        ("C = 0.1", "C = 0.1\ngamma = 0.3", "variants[3].gamma is not known; known: n_active, pre"),
        ("C = 0.1", "C = 0.1\npanel = 3", "variants[3].panel is not known; known: n_active, prec"),
        ("C = 0.1", "epochs = 9", "variants[3].C is missing; it is a number"),
        ('"logistic"\nC = 0.1', '"svgp"', "variants[3].epochs is missing; it is a whole number"),
        ('"logistic"\nC = 0.1', '"svgp"\nepochs = 0', "variants[3].epochs must be positive, got"),
        ('rival = "nystroem"', 'rival = "x"', "variants has 'x' as the rival of ours; known: ours"),
        ('rival = "nystroem"', 'rival = "file"', "variants has 'file' as the rival of ours; known"),
        ('data = "small"\nr', "r", "variants[0].data is missing; it is a text"),
    ],
)
def test_errors_name_file_and_key(pipeline, old, new, message):
    path = pipeline((old, new))
    with pytest.raises(SettingsError) as caught:
        read_pipeline(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_shipped_benchmark_names_what_has_to_be_shown(shipped):
    path = next(path for path in shipped if path.name == "rivals.toml")
    pipeline = read_pipeline(path)
    goals = {(goal.variant, goal.what): goal.value for goal in pipeline.goals}
    assert len(goals) == 20
    assert goals["mnist-1000", "CPU seconds / rival"] == 0.75
    assert goals["dna-1000", "test NLPP"] == 0.150
    assert pipeline.cells[-1].variant == "mnist-svc"
    ours = [cell for cell in pipeline.cells if cell.options["model"] == "sparsegp"]
    assert len(ours) == 7
    for cell in ours:
        panel = 1 if cell.variant == "isolet-1000" else None
        assert cell.settings == type(cell.settings)(n_active=cell.n_active, panel=panel)
        assert cell.options["rival"] == f"{cell.variant}-nystroem"
    assert json.dumps(pipeline.cells[0].options)
