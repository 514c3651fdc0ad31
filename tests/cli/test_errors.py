"""Bad input: one line of error, exit code 2, nothing written and nothing overwritten."""

import re
import shutil

import pytest

from sparsegp.store import MODEL, MODEL_FILE, folder_of, read_file
from tests.processes import checkpoints

FILES = [
    ("nothing.npz", r"no such file '.*nothing\.npz'"),
    ("what.xyz", r"what\.xyz"),
    ("cut.npz", r"cannot read .*cut\.npz"),
    ("ragged.csv", r"ragged\.csv"),
    ("empty.csv", r"empty\.csv is empty"),
    ("one_class.npz", r"one class only, 0, in all 300 rows of .*one_class\.npz"),
    ("lengths.npz", r"lengths\.npz"),
    ("nan.npz", r"nan\.npz .*row 17"),
    ("unlabelled.npz", r"unlabelled\.npz \(X\) has no labels"),
]
SETTINGS = [
    (("--n-active", 301), r"n_active=301 exceeds the 300 training rows less 30 kept for validat"),
    (("--n-active", 0), r"n_active must be at least 1, got 0"),
    (("--kernel", "2*matern9"), r"cannot read kernel '2\*matern9' at position 3 'matern9'"),
    (("--kernel", "(" * 5000), r"cannot read kernel "),
    (("--kernel", "rbf; rbf", "--kernel-per-class"), r"one for each of the 3 classes, got 2"),
    (("--criterion", "best"), r"unknown criterion 'best'; known: .*predictive"),
    (("--criterion", "residual", "--panel", 1), r"criterion=residual works in panels of 2 rows"),
    (("--method", "ep(damping=2)"), r"damping .*must be .*got 2"),
    (("--method", "laplace", "--panel", 2), r"takes all rows, has no settings panel"),
    (("--steps", 3), r"method=ivm has no settings steps"),
    (("--task", "sorting"), r"task must be classification or regression, got 'sorting'"),
    (("--likelihood", "probit"), r"needs exactly 2 classes, got 3"),
    (("--likelihood", "gaussian", "--task", "classification"), r"is not for task="),
    (("--block-rows", 0), r"block_rows must be at least 1, got 0"),
    (("--checkpoint-every", 0), r"checkpoint_every must be at least 1, got 0"),
    (("--workers", 0), r"workers must be at least 1, got 0"),
    (("--workers", 1, "--threads", 1), r"give only one option .*; got --threads and --workers"),
    (("--scheduler", "nonsense://x"), r"no dask scheduler answered at nonsense://x"),
    (("--scheduler-file", "/nothing.json"), r"/nothing\.json cannot be read"),
    (("--label-column", "y"), r"pair\.npz stores its labels apart"),
    (("--out", "x" * 300), r".*name too long"),
]


def one_line(result, pattern):
    """Assert that nothing but one line of error was written, and that it says the right thing."""
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert re.match(f"error: .*{pattern}", lines[0]), lines[0]


@pytest.mark.parametrize(("name", "pattern"), FILES)
def test_training_files(name, pattern, files, invoke, tmp_path):
    result = invoke("train", files / name, "--out", tmp_path / "run", "--quiet", code=2)
    one_line(result, pattern)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("options", "pattern"), SETTINGS)
def test_settings(options, pattern, files, invoke, tmp_path):
    arguments = ("--out", tmp_path / "run", "--quiet", "--json")
    result = invoke("train", files / "pair.npz", *arguments, *options, code=2)
    one_line(result, pattern)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        ((), "Missing command"),
        (("train",), "Missing argument 'DATA'"),
        (("tarin", "toy"), "No such command 'tarin'"),
        (("train", "toy", "--n-active", "many"), "Invalid value for '--n-active': 'many'"),
        (("train", "toy", "--n-actve", 3), r"No such option '--n-actve'.*--n-active"),
        (("predict", "run", "toy"), "Missing option '--out'"),
    ],
)
def test_usage(arguments, pattern, invoke):
    one_line(invoke(*arguments, code=2), pattern + r".* \(see `.* --help`\)$")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("narrow.npz", r"narrow\.npz \(X\) has 3 columns, .*pair\.npz \(X_train\) has 4"),
        ("unlabelled.npz", r"unlabelled\.npz \(X\) has no labels"),
    ],
)
def test_held_out_files(name, pattern, files, invoke, tmp_path):
    arguments = ("--test", files / name, "--out", tmp_path / "run", "--quiet")
    one_line(invoke("train", files / "pair.npz", *arguments, code=2), pattern)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("nothing.npz", r"no such file"),
        ("narrow.npz", r"the model takes 4 columns; .*narrow\.npz \(X\) has 3"),
        ("nan.npz", r"nan\.npz .*row 17"),
    ],
)
def test_rows_for_a_model(command, name, pattern, trained, files, invoke, tmp_path):
    out = ("--out", tmp_path / "p.csv") if command == "predict" else ()
    one_line(invoke(command, trained, files / name, *out, code=2), pattern)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["unlabelled.npz", "inputs.csv"])
def test_evaluation_needs_labels(name, trained, files, invoke):
    one_line(invoke("evaluate", trained, files / name, code=2), "has no labels")


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

    def test_no_run(self, invoke, files, tmp_path):
        for path in (tmp_path / "none", files, files / "pair.npz"):
            one_line(invoke("inspect", path, code=2), "")
            one_line(invoke("evaluate", path, "toy", code=2), "")

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
