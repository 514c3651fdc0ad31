"""Cells are run once, wherever they run, and a pipeline that is killed or stopped goes on."""

import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pipelines.__main__ import main
from pipelines.data import VIEWS, Source
from pipelines.experiment import read_experiment
from pipelines.pictures import draw
from pipelines.run import Work, _measure
from pipelines.table import layout, tabulate, tidy
from sparsegp.errors import SettingsError, StoreError
from sparsegp.store import Directory
from tests.pipelines.test_experiment import SHIPPED
from tests.processes import run_python, start_python, wait_until

DATA = os.environ.get("SPARSEGP_DATA", "")

PLAIN = ("table.n_active = [10, 20]", "")
LONG = (
    ("seeds = [5, 6]", ""),
    ("n_train = 120", "n_train = 4000"),
    ("n_active = 20\n", "n_active = 400\nsettings.lookahead = 1\n"),
    ("report_every = 5", "report_every = 200"),
    PLAIN,
    ("n_active = 10, ", ""),
)

DENSE = """
title = "Dense"
seeds = 2
data.iris = { split = { test_rows = 50 } }
settings.scaling = "standard"
settings.kernel = "ard(1, ...)"
methods.laplace = { method = "laplace" }
methods.logistic = { estimator = "sklearn.linear_model.LogisticRegression" }
methods.shared = { method = "laplace", kernel_method = "variational(importance=20, rounds=2)" }
methods.both = { method = "variational", kernel_method = "variational(importance=20, rounds=2)" }
"""


def ran(work, names="*", where=None):
    """Run what is missing; return the names of the cells that were run."""
    before = set(work.finished())
    work.run_missing(names, where)
    return [c.name for c in work.experiment.cells if c.key in set(work.finished()) - before]


def figures(work):
    """Return the figures of finished cells by name, without times."""
    found, names = work.finished(), {cell.key: cell.name for cell in work.experiment.cells}
    return {
        names[key]: {
            k: v for k, v in result["figures"].items() if "second" not in k and k[:2] != "ms"
        }
        for key, result in found.items()
    }


def test_finished_cells_are_not_run_again(work):
    small = work()
    assert ran(small, "toy-random-*") == ["toy-random-5", "toy-random-6"]
    assert len(ran(small)) == 4
    assert ran(small) == []
    assert not (small.out / "runs").exists()
    other = work(('criterion = "random"', 'criterion = "entropy"'))
    assert ran(other) == ["toy-random-5", "toy-random-6"]
    assert ran(small) == []  # its results are still there
    with small.path.open("a") as file:
        file.write('{"key": "abc", "resu')  # a line that a kill cut short
    assert ran(work(('criterion = "random"', 'criterion = "information"')))
    assert len(small.finished()) == 6
    with pytest.raises(SettingsError, match="toy-informative-5"):
        small.run_missing("nothing")
    handle = Directory(small.out).lock()
    with pytest.raises(StoreError, match="is held by"):
        small.run_missing("*")
    os.close(handle)


def test_other_data_files_make_other_results(work, tmp_path):
    text = DENSE.replace("data.iris", "data.glass").split("methods.shared")[0]
    rng = np.random.default_rng(0)
    for attempt in (0, 1):
        X, y = rng.normal(size=(80, 3)), np.arange(80) % 2
        np.savez(tmp_path / "glass.npz", X_train=X + y[:, np.newaxis], y_train=y)
        made = work(text=text)
        here = Work(made.experiment, tmp_path, made.out)
        assert len(ran(here)) == 4, attempt
        assert len(Work(made.experiment, None, made.out).finished()) == 4  # not compared


@pytest.mark.parametrize("where", ["threads=2", pytest.param("workers=2", marks=pytest.mark.slow)])
def test_small_cells_side_by_side_have_the_same_figures(work, where):
    how = {} if "workers" in where else {"text": DENSE.replace("seeds = 2", "seeds = 1")}
    one, many = work(**how), work(**how, out="many")
    ran(one)
    assert len(ran(many, where=where)) == len(one.experiment.cells)
    ours, theirs = figures(one), figures(many)
    assert ours.keys() == theirs.keys()
    for name, found in ours.items():
        assert theirs[name] == pytest.approx(found, nan_ok=True), name
    assert not (many.out / "runs").exists()


@pytest.mark.slow
def test_cells_in_processes_of_their_own_are_timed(work):
    limits = 'process = { threads = 1, memory = "4GB" }\n\nsettings.kernel'
    small = work(("\nsettings.kernel", limits), PLAIN)
    plain = work(PLAIN, out="plain")
    assert ran(small, "*m-5") == ["toy-random-5"]
    gone = ("pipelines.baselines.Prob", "not_installed.Prob")
    assert ran(work(("\nsettings.kernel", limits), PLAIN, gone, out="gone"), "*s-5") == []
    ran(plain, "*m-5")
    for key, result in small.finished().items():
        measured = result["figures"]
        assert 0 < measured["CPU seconds"] < 60
        assert measured["peak memory, MiB"] > 50
        assert measured["predicted rows / CPU second"] > 10
        other = plain.finished()[key]["figures"]
        assert "CPU seconds" not in other
        assert measured["test error %"] == other["test error %"]
    with pytest.raises(SettingsError, match="timed; leave out threads=2"):
        small.run_missing("*", "threads=2")


@pytest.mark.slow
def test_killed_inside_a_cell(written, work):
    path, whole = written(*LONG), work(*LONG, out="whole")
    words, how = ("-m", "pipelines", path, "--out", "results"), {"cwd": path.parent}
    killed = Work(whole.experiment, None, path.parent / "results" / whole.experiment.name)
    with start_python(*words, **how) as process:
        runs = killed.out / "runs"
        assert wait_until(lambda: any(runs.glob("*/run/checkpoint-*")), 60)
        process.send_signal(signal.SIGKILL)
    assert not killed.finished()
    with start_python(*words, **how) as process:
        assert wait_until(lambda: len(killed.finished()) == 1, 120)
        process.send_signal(signal.SIGTERM)
        shown = process.communicate()[1]
    assert process.returncode == 75
    assert "SIGTERM" in shown.splitlines()[-1]
    assert "3 of 3 cells finished" in run_python(*words, **how).stdout
    ran(whole)
    assert figures(killed) == figures(whole)


def test_command_line(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [str(written()), "--set", "seeds=[5]", "--out", "here"]
    shown = CliRunner().invoke(main, options).output
    assert "Small. Nobody (1900)" in shown
    assert "3 of 3 cells finished" in shown
    folder = next((tmp_path / "here").iterdir())
    files = "cells.jsonl curves-toy.png curves-toy.svg figures.csv lock table.csv"
    assert sorted(path.name for path in folder.iterdir()) == files.split()
    page = CliRunner().invoke(main, [*options, "--report", "page"])
    assert page.exit_code == 0
    text = (tmp_path / "page" / "index.html").read_text()
    assert "table 9" not in text
    assert "Nobody (1900)" in text
    assert len(text.split('src="data:image/png;base64,')[1].split('"')[0]) > 5000


@pytest.mark.parametrize(
    "arguments",
    [["missing.toml"], ["small.toml", "--cells", "none"], ["small.toml", "--set", "x"], []],
)
def test_errors_are_one_line(written, arguments, monkeypatch, capsys):
    monkeypatch.chdir(written().parent)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert re.fullmatch("error: .+\n", capsys.readouterr().err)


CHANGES = """
    seeds=1 settings.n_active=20 methods.*.n_active=20 methods.*.on.*.n_active=20
    settings.report_every=10 table.n_active=[-1] settings.stub_entries=400000
    settings.virtual.n_active=10 settings.major_steps=1 methods.*.major_steps=1
    settings.steps=4 settings.steps=2
    methods.*.on.*.method='variational(importance=20,rounds=2,rise=-1.0,updates=1)'
    methods.importance.method='variational(importance=20,rounds=2)'
    methods.updates.method='variational(importance=20,rounds=2,rise=-1.0,updates=1)'
    settings.kernel_method='variational(importance=20,rounds=2)'
    data.*.settings.kernel_method='variational(importance=20,rounds=2)'
    methods.gibbs.method='gibbs(chains=2,burn_in=20,samples=10,particles=0)'
    methods.annealed.options={runs=2,temperatures=20} methods.*.parameters.n_components=20
    methods.*.parameters.n_inducing=20 methods.*.parameters.epochs=1
    grid.log_length_scale=[2.0,3.0,2] grid.log_deviation=[1.0,2.0,2]
"""
"""What makes cells quick, where it can be changed."""

DRAWN = {"toy": {"n_train": 90, "n_test": 150}, "mixture": {"rows": 1000, "test_rows": 150}}


class FewRows(Source):
    """A source of which few rows are drawn, or kept, for training and to test."""

    def __post_init__(self):
        self.table = {**self.table, **DRAWN.get(self.table["source"], {})}
        super().__post_init__()

    def load(self, folder, seed):
        if self.table["source"] in DRAWN:
            return super().load(folder, seed)
        data = loaded(folder, json.dumps(self.table), seed)
        rows = slice(None, None, -(-len(data.y_test) // 150))
        few = VIEWS["sample"](data, seed, 150)
        return replace(few, X_test=data.X_test[rows], y_test=data.y_test[rows])


@lru_cache(8)
def loaded(folder, table, seed):
    return Source("here", json.loads(table)).load(folder, seed)


@pytest.mark.slow
@pytest.mark.skipif("SPARSEGP_DATA" not in os.environ, reason="needs the data files")
@pytest.mark.parametrize(
    "path",
    # even their quickest cells take minutes, 3 GB, or two dozen processes
    [p for p in SHIPPED if p.stem not in {"figure3", "figure311", "rounds", "spans", "table3"}],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_shipped_pipelines_run(path, tmp_path):
    """All methods of a pipeline on its first data, made quick, give all that its table has.

    Cells that are timed run in this process, with no limit of memory: others take seconds to start.
    """
    needs = {"svgp": ["gpytorch"], "rows": ["lightgbm"], "tables": ["lightgbm", "catboost"]}
    for library in needs.get(path.stem, []):
        pytest.importorskip(library)
    changes = []
    text = path.read_text() + "seeds steps"
    known = [c for c in CHANGES.split() if c.split("=")[0].split(".")[-1] in text]
    for change in known:
        with suppress(SettingsError):
            read_experiment(path, [*changes, change])
            changes.append(change)
    experiment = read_experiment(path, changes)
    experiment.cells = [
        replace(cell, source=FewRows(cell.source.name, cell.source.table))
        for cell in experiment.cells
    ]
    first = experiment.cells[0]
    made = Work(experiment, Path(DATA), tmp_path)
    if experiment.process is None:
        made.run_missing(f"{first.data}-*-{first.seed}*")
    else:
        limits = {k: v for k, v in experiment.process.items() if k != "memory"}
        for cell in experiment.cells:
            if (cell.data, cell.seed) == (first.data, first.seed):
                made._save(cell, _measure(cell, made.folder, limits))
    frame = tidy(experiment, made.finished())
    table = tabulate(experiment, frame)
    found = table[table["data"] == first.data]
    assert found.groupby("method")["ours"].count().all()
    assert found.groupby("metric")["ours"].count().all()
    assert layout(table).to_string()
    draw(made, frame)


@pytest.mark.parametrize("picture", ["curves", "ranks", "reject"])
def test_nothing_is_drawn_where_nothing_is_finished(picture, written, tmp_path):
    experiment = read_experiment(written(), [f"picture={picture}"])
    assert draw(Work(experiment, None, tmp_path), tidy(experiment, {})) == []
