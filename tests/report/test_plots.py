"""Pictures are written, and scales are chosen by the values."""

import builtins
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from sparsegp.errors import SettingsError, StoreError
from sparsegp.report import learning_curve, plots

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
