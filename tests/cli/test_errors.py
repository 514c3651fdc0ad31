"""Bad input: one line of error, exit code 2, nothing written and nothing overwritten."""

import re
import shlex
import shutil

import pytest

from sparsegp.store import MODEL, MODEL_FILE, folder_of, read_file
from tests.processes import checkpoints

REFUSED = [
    # the command
    ("", r"Missing command \(see `.* --help`\)$"),
    ("train", "Missing argument 'DATA'"),
    ("tarin toy", "No such command 'tarin'"),
    ("train toy --n-active many", r"Invalid value for '--n-active': 'many'.*see `.* train --help`"),
    ("train toy --n-actve 3", "No such option '--n-actve'.*--n-active"),
    ("predict run toy", "Missing option '--out'"),
    # files
    ("train nothing.npz", r"no such file '.*nothing\.npz'"),
    ("train what.xyz", r"what\.xyz"),
    ("train cut.npz", r"cannot read .*cut\.npz"),
    ("train ragged.csv", r"ragged\.csv"),
    ("train empty.csv", r"empty\.csv is empty"),
    ("train one_class.npz", r"one class only, 0, in all 300 rows of .*one_class\.npz"),
    ("train lengths.npz", r"lengths\.npz"),
    ("train nan.npz", r"nan\.npz .*row 17"),
    ("train unlabelled.npz", r"unlabelled\.npz \(X\) has no labels"),
    ("train pair.npz --test narrow.npz", r"narrow\.npz \(X\) has 3 columns, .*\(X_train\) has 4"),
    ("train pair.npz --test unlabelled.npz", r"unlabelled\.npz \(X\) has no labels"),
    ("train pair.npz --label-column y", r"pair\.npz stores its labels apart"),
    # settings
    ("train pair.npz --n-active 301", "n_active=301 exceeds the 300 training rows less 30 kept"),
    ("train pair.npz --n-active 0", "n_active must be at least 1, got 0"),
    ("train pair.npz --kernel 2*matern9", r"cannot read kernel '2\*matern9' at position 3"),
    (f"train pair.npz --kernel '{'(' * 5000}'", "cannot read kernel "),
    ("train pair.npz --kernel 'rbf; rbf' --kernel-per-class", "each of the 3 classes, got 2"),
    ("train pair.npz --criterion best", "unknown criterion 'best'; known: .*predictive"),
    ("train pair.npz --criterion residual --panel 1", "criterion=residual works in panels of 2"),
    ("train pair.npz --method 'ep(damping=2)'", "damping .*must be .*got 2"),
    ("train pair.npz --method laplace --panel 2", "takes all rows, has no settings panel"),
    ("train pair.npz --steps 3", "method=ivm has no settings steps"),
    ("train pair.npz --task sorting", "task must be classification or regression, got 'sorting'"),
    ("train pair.npz --likelihood probit", "needs exactly 2 classes, got 3"),
    ("train pair.npz --likelihood gaussian --task classification", "is not for task="),
    ("train pair.npz --stub-entries 1000000", "posterior=all needs those of all rows"),
    ("train pair.npz --stub-entries 5 --stub-memory 4GB", "give only one of --stub-entries"),
    ("train pair.npz --posterior adf --n-active 40 --stub-entries 10", "entries must be at least"),
    ("train numbers.npz --virtual trained", "must hold the active rows of the model"),
    ("train pair.npz --shift 1 --image 2x2", "--shift and --image is for copies; give --virtual"),
    ("train pair.npz --virtual none", "none is missing"),
    # how and where to run
    ("train pair.npz --block-rows 0", "block_rows must be at least 1, got 0"),
    ("train pair.npz --checkpoint-every 0", "checkpoint_every must be at least 1, got 0"),
    ("train pair.npz --workers 0", "workers must be at least 1, got 0"),
    ("train pair.npz --workers 1 --threads 1", "only one option .*; got --threads and --workers"),
    ("train pair.npz --scheduler nonsense://x", "no dask scheduler answered at nonsense://x"),
    ("train pair.npz --scheduler-file /nothing.json", r"/nothing\.json cannot be read"),
    ("train pair.npz --tls here", "--tls goes with --scheduler or --scheduler-file"),
    (f"train pair.npz --out {'x' * 300}", ".*name too long"),
    # tuning
    ("train pair.npz --max-seconds 5 --max-trials 5", "limits a tuning; give --tune too"),
    ("tune pair.npz --max-trials 0", "max_trials must be at least 1, got 0"),
    ("tune pair.npz --max-seconds -1", "max_seconds must be positive, got -1"),
    ("tune pair.npz --kernel-per-class", "one kernel for all classes"),
    ("tune pair.npz --posterior adf --stub-memory 1MB", "tune without --stub-"),
    ("train pair.npz --tune --likelihood probit", "leave the tuning out"),
    ("train pair.npz --tune --task regression", "tuning is for classification"),
    # rows for a model
    ("evaluate trained nothing.npz", "no such file"),
    ("evaluate trained narrow.npz", r"the model takes 4 columns; .*narrow\.npz \(X\) has 3"),
    ("evaluate trained nan.npz", r"nan\.npz .*row 17"),
    ("evaluate trained unlabelled.npz", "has no labels"),
    ("evaluate trained inputs.csv", "has no labels"),
    ("evaluate nothing toy", "nothing"),
    ("evaluate pair.npz toy", ""),
    ("inspect nothing", "nothing"),
    ("inspect pair.npz", ""),
    ("inspect .", ""),
    ("predict trained nan.npz --out {out}.csv", r"nan\.npz .*row 17"),
    ("predict trained only.npz --out {out}.csv --reject-below 1.01", "above 0 and at most 1, got"),
    ("predict trained only.npz --out {out}.csv --reject-below nan", "above 0 and at most 1, got"),
    ("predict trained only.npz --out p.xlsx", "cannot tell the format of 'p.xlsx'"),
    ("predict trained only.npz --out {out}/p.csv", "there is no directory"),
    # estimates
    ("estimate pair.npz --n-active 301", "n_active=301 exceeds the 300 training rows"),
    ("estimate pair.npz --likelihood probit", "needs exactly 2 classes, got 3"),
    ("estimate pair.npz --workers 0", "at least 1"),
    ("estimate pair.npz --workers 1 --threads 1", "only one"),
    ("estimate words.npz --task regression", "numbers"),
]


def one_line(result, pattern):
    """Assert that nothing but one line of error was written, and that it says the right thing."""
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert re.match(f"error: .*{pattern}", lines[0]), lines[0]


@pytest.mark.parametrize(("words", "pattern"), REFUSED)
def test_refused(words, pattern, files, trained, invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    out = tmp_path / "out"
    words = [
        str(trained) if word == "trained" else word.format(out=out) for word in shlex.split(words)
    ]
    if words[0:1] in (["train"], ["tune"]) and "--out" not in words:
        words += ["--out", out, "--quiet"]
    one_line(invoke(*words, code=2), pattern)
    assert list(tmp_path.iterdir()) == []


def test_taken_directories(trained, files, invoke, tmp_path, untouched):
    (tmp_path / "file").write_text("!")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("!")
    arguments = ("train", files / "pair.npz", "--n-active", 40, "--quiet", "--out")
    with untouched(tmp_path), untouched(trained):
        one_line(
            invoke(*arguments, trained, code=2),
            "holds another run; choose another --out, or go on with it by --resume",
        )
        one_line(invoke(*arguments, tmp_path / "file", code=2), "is not a directory")
        for resume in ((), ("--resume",)):
            one_line(
                invoke(*arguments, tmp_path / "other", *resume, code=2),
                "is not empty and holds no run",
            )
        one_line(invoke(*arguments, tmp_path / "file" / "run", code=2), "cannot ")


class TestAltered:
    @pytest.fixture
    def run(self, trained, tmp_path):
        return shutil.copytree(trained, tmp_path / "run")

    @staticmethod
    def damage(file):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    @pytest.mark.parametrize("command", ["inspect", "evaluate", "predict"])
    def test_model(self, command, run, files, invoke, tmp_path):
        self.damage(run / MODEL_FILE)
        data = {"inspect": (), "evaluate": (files / "only.npz",)}
        rest = data.get(command, (files / "only.npz", "--out", tmp_path / "p.csv"))
        one_line(invoke(command, run, *rest, code=2), r".*model\.zarr\.zip is damaged")
        assert not (tmp_path / "p.csv").exists()

    @pytest.mark.parametrize("content", ["{", '{"settings": 3}'])
    def test_manifest(self, content, run, files, invoke):
        (run / MODEL_FILE).unlink()
        (run / "run.json").write_text(content)
        one_line(invoke("inspect", run, code=2), r"run\.json is damaged")
        arguments = ("--n-active", 40, "--out", run, "--quiet", "--resume")
        one_line(invoke("train", files / "pair.npz", *arguments, code=2), r"run\.json is damaged")

    def test_newest_checkpoint(self, files, invoke, last_json, tmp_path):
        """The one before it is taken, and the run ends as it did."""
        arguments = ("--n-active", 40, "--checkpoint-every", 10, "--posterior", "adf", "--quiet")
        arguments += ("--panel", 1, "--report-every", 10)
        run, whole = tmp_path / "run", tmp_path / "whole"
        invoke("train", files / "pair.npz", *arguments, "--out", whole)
        shutil.copytree(whole, run)
        (run / MODEL_FILE).unlink()
        self.damage(run / "checkpoint-00000040.zarr.zip")
        result = invoke("inspect", run, "--json")
        record = last_json(result.stdout)
        said = f"checkpoint passed over, going back to {record['n_active']}: "
        assert said in result.stderr
        assert record["state"] == "unfinished"
        assert record["n_active"] < record["n_wanted"] == 40
        arguments = (*arguments, "--out", run, "--resume")
        result = invoke("train", files / "pair.npz", *arguments)
        assert said in result.stderr
        found, expected = (read_file(folder_of(each), MODEL_FILE, MODEL) for each in (run, whole))
        for name in expected.arrays.keys() - {"history"}:
            assert found.arrays[name].tobytes() == expected.arrays[name].tobytes(), name

    def test_all_checkpoints(self, run, files, invoke, untouched):
        (run / MODEL_FILE).unlink()
        for step in checkpoints(run):
            self.damage(run / f"checkpoint-{step:08d}.zarr.zip")
        one_line(invoke("inspect", run, code=2), r"no checkpoint in .* can be used")
        arguments = ("--n-active", 40, "--out", run, "--quiet", "--resume")
        with untouched(run):
            result = invoke("train", files / "pair.npz", *arguments, code=2)
        one_line(result, r"no checkpoint in .* can be used")

    def test_no_checkpoint_yet(self, run, trained, files, invoke, last_json):
        (run / MODEL_FILE).unlink()
        for step in checkpoints(run):
            (run / f"checkpoint-{step:08d}.zarr.zip").unlink()
        record = last_json(invoke("inspect", run, "--json").stdout)
        assert (record["n_active"], record["active_rows"], record["history"]) == (0, [], [])
        assert "0 of 40" in invoke("inspect", run).stdout
        one_line(invoke("evaluate", run, "toy", code=2), "holds no finished model; go on with")


class TestResume:
    @pytest.mark.parametrize(
        ("data", "options", "pattern"),
        [
            ("pair.npz", ("--n-active", 41), r"n_active was 40 and is now 41"),
            ("only.npz", (), r"digest was .*; rows was 300 and is now 100"),
            ("words.npz", (), r"classes was \[0, 1, 2\] and is now \['low', 'mid', 'up'\]"),
        ],
    )
    def test_other_settings_and_data(
        self, data, options, pattern, trained, files, invoke, untouched
    ):
        arguments = ("--n-active", 40, "--out", trained, "--quiet", "--resume", *options)
        with untouched(trained):
            result = invoke("train", files / data, *arguments, code=2)
        one_line(result, f"cannot resume .* with other settings or data: .*{pattern}")

    def test_finished(self, trained, files, invoke, untouched, last_json):
        arguments = ("--n-active", 40, "--out", trained, "--resume", "--json")
        with untouched(trained):
            result = invoke("train", files / "pair.npz", *arguments)
        assert "is finished; nothing to do" in result.stderr
        assert last_json(result.stdout)["n_active"] == 40

    def test_what_a_killed_start_left(self, files, invoke, tmp_path):
        """A directory with the lock alone, or a half-written manifest, holds no run."""
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "lock").write_text("process 1 on earth\n")
            (tmp_path / name / f".run.json.{'0' * 32}.tmp").write_text("{")
        arguments = ("train", files / "pair.npz", "--n-active", 5, "--quiet", "--out")
        invoke(*arguments, tmp_path / "a")
        invoke(*arguments, tmp_path / "b", "--resume")


def test_full_memory(files, invoke, monkeypatch, tmp_path):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("sparsegp.fit.train", full)
    result = invoke("train", files / "pair.npz", "--out", tmp_path / "run", "--quiet", code=2)
    one_line(result, r"memory is full \(Unable to allocate 7 TiB\); lower --n-active")
