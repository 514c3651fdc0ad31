"""Pictures are written, and scales are chosen by the values."""

import builtins
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from sparsegp.errors import SettingsError, StoreError
from sparsegp.report import (
    History,
    contours,
    evaluate,
    evaluation_pictures,
    learning_curve,
    plots,
)

ROWS = np.array([1, 50, 100, 200, 400])


@pytest.fixture
def drawn(monkeypatch):
    """Figures that were about to be saved."""
    figures = []
    save = plots._save
    monkeypatch.setattr(plots, "_save", lambda *given: (figures.append(given[0]), save(*given)))
    return figures


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_written(tmp_path, suffix):
    path = tmp_path / f"curve.{suffix}"
    curves = {"one $ two $ three": (ROWS, 0.9 / ROWS), "random": (ROWS, 0.9 / ROWS**0.5)}
    learning_curve(curves, "held-out error", path, reference={"other": 0.01})
    assert path.stat().st_size > 5000
    if suffix == "png":
        assert imread(path).std() > 0.01


def test_contours_beside_each_other_with_a_cross_at_the_highest_point(tmp_path, drawn):
    x, y = np.linspace(0.0, 2.0, 9), np.linspace(-1.0, 1.0, 5)
    hill = -np.square(x - 1.5) - np.square(y[:, np.newaxis] + 0.5)
    contours(("log l", x), ("log s", y), {"hill": hill, "flat": 0 * hill}, tmp_path / "c.png")
    hill_axes, flat_axes = drawn[0].axes
    cross = hill_axes.lines[-1].get_xydata()
    np.testing.assert_allclose(cross, [[1.5, -0.5]])
    assert (hill_axes.get_xlabel(), hill_axes.get_ylabel()) == ("log l", "log s")
    assert (hill_axes.get_title(), flat_axes.get_title()) == ("hill", "flat")
    assert imread(tmp_path / "c.png").std() > 0.01


def test_imports_wait_until_they_are_needed(tmp_path):
    code = (
        "import sys\n"
        "from sparsegp.report import learning_curve\n"
        "assert not {'matplotlib', 'rich', 'sklearn'} & set(sys.modules)\n"
        "learning_curve({'a': ([1, 2], [0.5, 0.25])}, 'error', sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], check=True)


@pytest.mark.parametrize(
    ("values", "scale", "bottom"),
    [
        ([0.9, 0.5, 0.2, 0.1, 0.05], "log", None),
        ([0.9, 0.5, 0.4, 0.3, 0.25], "linear", 0),
        ([0.9, 0.5, 0.2, 0.1, 0.0], "linear", 0),
        ([-9, -5, -2, -1, -0.5], "linear", None),
        ([0.9, 0.5, 0.4, 0.3, np.nan], "linear", 0),
    ],
)
def test_scale(tmp_path, drawn, values, scale, bottom):
    learning_curve({"ours": (ROWS, values)}, "error", tmp_path / "curve.png")
    (figure,) = drawn
    (axes,) = figure.axes
    assert axes.get_yscale() == scale
    if bottom is not None:
        assert axes.get_ylim()[0] == bottom
    assert axes.get_ylabel() == "error"
    assert len(axes.lines[0].get_xdata()) == np.isfinite(values).sum()


def test_references_are_named(tmp_path, drawn):
    learning_curve({"ours": (ROWS, 0.9 / ROWS)}, "error", tmp_path / "a.png", {"SVM": 0.0473})
    (axes,) = drawn[0].axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "SVM"]
    assert list(axes.lines[1].get_ydata()) == [0.0473, 0.0473]


@pytest.mark.parametrize(
    ("curves", "name", "message"),
    [
        ({}, "a.png", "at least one finite value"),
        ({"a": (ROWS, np.full(5, np.nan))}, "a.png", "at least one finite value"),
        ({"a": (ROWS, [1.0, 2.0])}, "a.png", r"'a' has \(2,\) values for \(5,\)"),
        ({"a": (ROWS, ROWS)}, "a.docx", "suffix of a picture must be one of .*png"),
        ({"a": (ROWS, ROWS)}, "a", "suffix of a picture"),
    ],
)
def test_settings_errors(tmp_path, curves, name, message):
    with pytest.raises(SettingsError, match=message):
        learning_curve(curves, "error", tmp_path / name)


def test_place_that_cannot_be_written(tmp_path):
    with pytest.raises(StoreError, match=r"cannot write the picture .*No such file"):
        learning_curve({"a": (ROWS, ROWS)}, "error", tmp_path / "missing" / "a.png")


def test_without_matplotlib(tmp_path, monkeypatch):
    load = builtins.__import__

    def refuse(name, *rest, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(SettingsError, match=r'pip install "sparsegp\[plot\]"'):
        learning_curve({"a": (ROWS, ROWS)}, "error", tmp_path / "a.png")


def evaluation(n_classes, n=500):
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(size=(n, n_classes)) * 3
    codes = np.array([rng.choice(n_classes, p=np.exp(z) / np.exp(z).sum()) for z in logits])
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return evaluate(logs, codes, np.array([f"class ${k}" for k in range(n_classes)]))


@pytest.mark.parametrize("n_classes", [2, 10, 45])
def test_reliability_diagram(tmp_path, drawn, n_classes):
    found = evaluation(n_classes)
    plots.reliability_diagram(found, tmp_path / "a.png")
    above, below = drawn[0].axes
    points = above.lines[1]
    counts = np.array([int(text.get_text()) for text in below.texts])
    assert counts.sum() == found.n
    assert len(counts) == len(points.get_xdata())
    gaps = np.abs(points.get_ydata() - points.get_xdata())
    assert (gaps * counts).sum() / found.n == pytest.approx(found.ece)
    assert f"ECE {found.ece:.4f}, 500 rows" in above.get_title()


@pytest.mark.parametrize("n", [1, 12, 500])
def test_error_reject_curve(tmp_path, drawn, n):
    found = evaluation(4, n)
    plots.error_reject_curve(found, tmp_path / "a.png")
    (axes,) = drawn[0].axes
    x, y = axes.lines[0].get_data()
    assert (x[0], y[0]) == (0, pytest.approx(100 * found.error))
    assert x[-1] == pytest.approx(1 - min(20, n) / n)
    assert f"error of all {n} rows: {100 * found.error:.2f} %" in axes.get_title()


@pytest.mark.parametrize("n_classes", [2, 10, 45])
def test_confusion_matrix(tmp_path, drawn, n_classes):
    found = evaluation(n_classes)
    plots.confusion_matrix(found, tmp_path / "a.png")
    axes = drawn[0].axes[0]
    shares = found.confusion / np.maximum(found.confusion.sum(axis=1, keepdims=True), 1)
    np.testing.assert_array_equal(axes.images[0].get_array(), shares)
    written = [int(text.get_text()) for text in axes.texts]
    assert sum(written) == (found.n if n_classes <= 40 else 0)
    assert axes.get_xticklabels()[0].get_text() == r"class \$0"


def test_pictures_of_an_evaluation(tmp_path, drawn):
    history = History.from_records(
        [{"n_active": n, "train_error": 1 / n, "heldout_error": 2 / n} for n in (10, 20, 30)]
    )
    found, folder = evaluation(3), tmp_path / "a" / "b"
    paths = evaluation_pictures(found, history, folder)
    names = ["reliability", "error-reject", "confusion", "learning-curve"]
    assert paths == [folder / f"{name}.png" for name in names]
    assert all(imread(path).std() > 0.01 for path in paths)
    assert len(drawn[-1].axes[0].lines) == 3
    assert len(evaluation_pictures(found, History(), folder)) == 3
    one = History.from_records([{"n_active": 10, "train_error": 0.5}])
    evaluation_pictures(found, one, folder)
    assert len(drawn[-1].axes[0].lines) == 2


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make the folder .*file"):
        evaluation_pictures(evaluation(3), History(), tmp_path / "file" / "a")
