"""Standard output that is closed, full, or a terminal that labels must not steer."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import sparsegp
from sparsegp.cli import resuming
from sparsegp.cli.program import program
from sparsegp.cli.tables import stem
from tests.processes import environment, invoke

FULL = f"{os.strerror(28)}: standard output.* cannot be written; "
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def run_in_shell(words, redirection, folder):
    """Run Python with standard output or standard error of another kind."""
    command = ["sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable, *words]
    how = {"cwd": folder, "capture_output": True, "text": True, "env": environment()}
    return subprocess.run(command, check=False, **how)


@needs_full
@pytest.mark.parametrize(
    ("command", "redirection", "code", "said"),
    [
        ("inspect {run} --json", "| true", 0, None),
        pytest.param("--help", "| true", 0, None, marks=pytest.mark.slow),
        ("inspect nothing", ">&-", 2, "no run or model at "),
        pytest.param(
            *("predict {run} {data} --out -", ">&-", 2, "- stands for stdout, which is closed"),
            marks=pytest.mark.slow,
        ),
        ("predict {run} - --out -", "<&-", 2, "- stands for stdin, which is closed"),
        pytest.param("inspect {run}", ">/dev/full", 2, FULL, marks=pytest.mark.slow),
        ("predict {run} {data} --out -", ">/dev/full", 2, FULL),
        pytest.param("--help", ">/dev/full", 2, FULL, marks=pytest.mark.slow),
    ],
)
def test_standard_output_that_takes_nothing(command, redirection, code, said, trained, files):
    """A reader has seen enough, as `head -1` has, or it was closed before, or its disk is full."""
    words = command.format(run=trained, data=files / "only.npz").split()
    done = run_in_shell(["-W", "error", "-m", "sparsegp", *words], redirection, files)
    assert done.returncode == code
    assert re.fullmatch(f"error: .*{said}.*\n" if said else "", done.stderr)


@pytest.mark.parametrize(("encoding", "written"), [("ascii", "utf-8"), ("latin-1", "latin-1")])
def test_labels_that_the_terminal_cannot_show(encoding, written, tmp_path):
    """Predictions are UTF-8 as in files; elsewhere click takes ASCII for UTF-8."""
    X, y = np.arange(20.0)[:, np.newaxis], np.array(["\u00fc", "\U0001f600"]).repeat(10)
    model = sparsegp.train(X, y, kernel="rbf", n_active=9)
    model.save(tmp_path / "m")
    np.savez(tmp_path / "new.npz", X=X)
    runner = CliRunner(charset=encoding)
    words = ["predict", str(tmp_path / "m"), str(tmp_path / "new.npz"), "--out"]
    done, other = (runner.invoke(program, [*words, out]) for out in ("-", str(tmp_path / "p.csv")))
    assert (done.exit_code, other.exit_code) == (0, 0)
    assert done.stdout_bytes == (tmp_path / "p.csv").read_bytes()
    shown = runner.invoke(program, ["inspect", str(tmp_path / "m")])
    assert shown.exit_code == 0, shown.output
    assert "\U0001f600".encode(written, "backslashreplace") in shown.stdout_bytes


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize(("where", "workers"), [("2>/dev/full", ()), ("2>&-", ("--workers", "1"))])
def test_a_log_that_cannot_be_written_does_not_end_the_work(where, workers, files, tmp_path):
    program = ["-m", "sparsegp"]
    train = [*program, "train", str(files / "pair.npz"), "--n-active", "20", "--kernel", "rbf"]
    done = run_in_shell([*train, *workers, "--json", "--out", "run"], where, tmp_path)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["n_active"] == 20
    assert run_in_shell([*program, "inspect", "nothing"], where, tmp_path).returncode == 2


@needs_full
def test_a_late_message_to_a_full_log_does_not_change_the_exit_code(tmp_path):
    """Dask, for one, reports at exit; Python would exit with 120."""
    late = (
        "import atexit, sys; from sparsegp.cli import main; "
        "atexit.register(lambda: print('late', file=sys.stderr)); main()"
    )
    done = run_in_shell(["-c", late, "--version"], "2>/dev/full", tmp_path)
    assert (done.returncode, done.stdout[:8]) == (0, "sparsegp")


@pytest.fixture
def hostile(tmp_path):
    """A run on labels that steer terminals and spreadsheets; the folder has its data too."""
    rng = np.random.default_rng(0)
    X, code = rng.standard_normal((60, 3)), np.arange(60) % 4
    labels = ["\x1b[31mred\x1b]0;title\x07\x7f", "\u202eline\nbreak\x9b2J", "=cmd|x", "-1"]
    np.savez(tmp_path / "rows.npz", X=X, y=np.array(labels)[code])
    np.savez(tmp_path / "other.npz", X=X, y=np.array(["\x1bunknown"] * 60))
    result = invoke("train", tmp_path / "rows.npz", "--n-active", 60, "--out", tmp_path / "run")
    # rows that are as few as these are left out in turn
    assert result.stdout.count("in cross-validation, which chose the prior variance") == 2
    return tmp_path, labels, result


def test_weighted_figures_say_so(hostile, tmp_path):
    command = ("train", hostile[0] / "rows.npz", "--n-active", 20, "--class-weight", "balanced")
    shown = invoke(*command, "--out", tmp_path / "weighted").stdout
    assert shown.count("nats in weighted cross-validation") == 2


def test_control_characters_of_labels_do_not_reach_the_terminal(hostile):
    folder, labels, trained = hostile
    run, rows = folder / "run", folder / "rows.npz"
    shown = [
        trained,
        invoke("evaluate", run, rows),
        invoke("evaluate", run, folder / "other.npz", code=2),
        invoke("inspect", run),
        invoke("inspect", run, "--json"),
        invoke("predict", run, rows, "--out", folder / "p.csv"),
    ]
    for result in shown:
        text = result.stdout + result.stderr
        assert not [mark for mark in text if not (mark.isprintable() or mark in "\n")]
    assert r"\x1b[31mred" in shown[3].stdout
    assert not [line for line in shown[1].stdout.splitlines() if line.startswith("break")]
    assert json.loads(shown[4].stdout)["classes"] == sorted(labels)


def test_labels_in_text_files_are_harmless(hostile):
    """In arrays they are as they were."""
    folder, labels, _ = hostile
    text, archive = folder / "p.csv", folder / "p.npz"
    for out in (text, archive):
        invoke("predict", folder / "run", folder / "rows.npz", "--out", out)
    with text.open(newline="") as file:
        header, *lines = csv.reader(file)
    cells = {*header, *(line[1] for line in lines)}
    assert not [mark for cell in cells for mark in cell if not mark.isprintable()]
    with np.load(archive) as arrays:
        predicted = arrays["labels"].tolist()
    assert set(predicted) == set(labels)
    written = {label: line[1] for label, line in zip(predicted, lines, strict=True)}
    assert (written["=cmd|x"], written["-1"]) == ("'=cmd|x", "-1")
    assert written[labels[1]] == r"\u202eline\nbreak\x9b2J"


def test_credentials_of_an_address_are_not_shown():
    for word in ("secret", "secret/key"):
        result = invoke("train", f"memory://me:{word}@host/a.csv?key=secret", code=2)
        assert "reading memory://***@host/a.csv?***" in result.stderr
        assert "secret" not in result.output
    assert "secret" not in resuming(["train", "https://me:secret@host/a.csv"])
    assert resuming(["update", "run", "a.csv"]).endswith("sparsegp update run a.csv --resume")


def test_runs_are_called_by_their_data():
    for data in ("s3://a/Rows.csv.xz", "rows.csv.gz", "rows.zarr/", "a/rows.npy,b/y.npy"):
        assert stem(data) == "rows"
