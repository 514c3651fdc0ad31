"""Bad input: one line of error, exit code 2, nothing written and nothing overwritten."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pytest

import sparsegp
from sparsegp.store import MODEL_FILE
from tests.data.files import untouched
from tests.processes import checkpoints, environment, invoke, told

OTHER = "holds a run with other settings or data: .*"
REFUSED = [
    # the command
    ("train", "Missing argument 'DATA'"),
    ("tarin toy", "No such command 'tarin'"),
    ("train toy --n-active many", r"Invalid value for '--n-active': 'many'.*see `.* train --help`"),
    ("train toy --n-actve 3", "No such option '--n-actve'.*--n-active"),
    ("predict run toy", "Missing option '--out'"),
    # files
    ("train nothing.npz", r"no such file '.*nothing\.npz'"),
    ("train nan.npz", r"nan\.npz .*row 17"),
    ("train pair.npz --test narrow.npz", r"columns; .*\(X_train\) has 4 .*narrow\.npz \(X\) has 3"),
    ("train pair.npz --test others.npz", r"others\.npz .*none of them but 100, 101, 102; give"),
    ("train pair.npz --test unlabelled.npz", r"unlabelled\.npz \(X\) has no labels"),
    # settings
    ("train pair.npz --n-active 301", "--n-active 301 exceeds the 300 training rows"),
    ("train pair.npz --method 'gibbs(a=1, steps=10)'", r"'gibbs\(a=1, steps=10\)'"),
    ("train pair.npz --method whole", "unknown method 'whole'; known: ivm, .*exact"),
    ("train pair.npz --method laplace --panel 2", "takes all rows, has no settings --panel"),
    ("estimate pair.npz --block-rows 0", "--block-rows must be at least 1"),
    ("train pair.npz --steps 3", "--method ivm has no settings --steps"),
    ("train pair.npz --task sorting", "task must be classification or regression, got 'sorting'"),
    ("train pair.npz --stub-entries 1000000", "--posterior all needs those of all rows"),
    ("train pair.npz --posterior adf --n-active 40 --stub-entries 10", "entries must be at least"),
    ("train two.npz --strategy exact", "--strategy needs --learn evidence; give that, or leave it"),
    ("train pair.npz --hyperprior 'v: gamma(1, 1)'", "--hyperprior needs --learn evidence or hmc"),
    ("train pair.npz --method laplace --steps 3", "--steps needs --learn evidence or hmc"),
    ("train pair.npz --keep-best 0.3", "--keep-best needs --stub-entries"),
    ("train pair.npz --epsilon 0.1", "--epsilon needs --sites moments"),
    ("tune pair.npz --posterior adf --tolerance 0.1", "--tolerance needs --posterior all"),
    ("estimate pair.npz --major-steps 3", "--major-steps needs --learn evidence"),
    ("train pair.npz --shift 1 --image 2x2", "--shift and --image is for copies; give --virtual"),
    ("train pair.npz --virtual none", "no run or model at .*none"),
    ("train pair.npz --virtual trained --image 4x4", "4 columns do not make an image of 4x4"),
    ("train pair.npz --virtual trained --image twelve", "height and width, such as 16x16, got 'tw"),
    ("train pair.npz --virtual trained --tune", "--virtual takes the kernel of its run; leave --t"),
    ("train pair.npz --virtual trained --out {trained}/. --overwrite", "be another directory than"),
    *(
        (f"train pair.npz {option} 'a{rest}'", "a list must be on one line.*got 'a")
        for option in ("--drop", "--kinds", "--missing")
        for rest in ("\nb", ',"b')
    ),
    ("train pair.npz --kinds a", "`?kinds.*; got 'a'"),
    (f"train pair.npz --drop {'a' * 200_000}", "a list must be"),
    ("train pair.npz --class-weight 'a=1\nb=2'", "a list must be on one line"),
    (f"train two.npz --class-weight '{{{{\"a\": {'[' * 100_000}'", "class-weight must be balanced"),
    # how and where to run
    ("train pair.npz --block-rows 0", "--block-rows must be at least 1, got 0"),
    ("train pair.npz --checkpoint-every 0", "--checkpoint-every must be at least 1, got 0"),
    ("train pair.npz --workers 0", "workers must be at least 1, got 0"),
    ("train pair.npz --workers 1 --threads 1", "only one option .*; got --threads and --workers"),
    ("train pair.npz --scheduler nonsense://x:1", "nonsense://x:1 is not the address of a dask"),
    ("train pair.npz --scheduler tls://a:word@b:1", r"tls://\*\*\*@b:1 is not the address[^@]*$"),
    ("train pair.npz --scheduler-file /nothing.json", r"/nothing\.json cannot be read"),
    ("train pair.npz --scheduler a:1 --tls ~nobody-at-all", r"must hold ca\.pem"),
    ("train pair.npz --tls here", "--tls goes with --scheduler or --scheduler-file"),
    (f"train pair.npz --out {'x' * 300}", ".*name too long"),
    # runs that are there
    ("train pair.npz --out trained --n-active 41", f"{OTHER}--n-active was 40 .*with --overwrite"),
    ("train only.npz --out trained --n-active 40 --resume", rf"{OTHER}.*rows 300, now 100\); give"),
    ("train words.npz --out trained --n-active 40", rf"{OTHER}.*\[0, 1, 2\], now \['low', 'mid',"),
    ("train moved.npz --out trained --n-active 40", f"{OTHER}the training data, or names"),
    ("train pair.npz --out rows.csv", "is not a directory"),
    ("train pair.npz --out rows.csv/run", "cannot "),
    ("train pair.npz --out mine.csv", "is not empty and holds no run"),
    # tuning
    ("train pair.npz --max-seconds 5 --max-trials 5", "limits a search .*settings there is none"),
    ("tune pair.npz --max-trials 0", "--max-trials must be at least 1, got 0"),
    ("tune pair.npz --max-seconds -1", "--max-seconds must be above 0, got -1"),
    ("tune pair.npz --kernel-per-class", "one kernel is chosen by held-out rows for all classes"),
    ("tune pair.npz --posterior adf --stub-entries 9999", "does not support a bound on stub"),
    # rows for a model
    ("update trained pair.npz --out trained", "must be another directory than RUN"),
    ("update trained pair.npz --n-active 341", "341 exceeds the 300 new rows and the 40 active"),
    ("evaluate trained narrow.npz", r"the model takes 4 columns; .*narrow\.npz \(X\) has 3"),
    ("evaluate trained unlabelled.npz", "has no labels"),
    ("evaluate trained others.npz", "must be among 0, 1, 2, found none of them but 100, "),
    ("evaluate trained only.npz --threshold 0.3", "is for classifiers of two classes; leave"),
    ("evaluate regressed numbers.npz --plots {out}", "relevances of kernels such as ard"),
    ("evaluate memory://nothing toy", "no run or model at memory://nothing/model.zarr.zip"),
    ("evaluate nothing://a/b toy", "Protocol not known: nothing"),
    ("inspect pair.npz", ""),
    ("inspect rows.csv", r"rows\.csv is not a model or run of sparsegp"),
    ("inspect .", ""),
    ("predict trained nan.npz --out {out}.csv", r"nan\.npz .*row 17"),
    ("predict trained only.npz --out {out}.csv --reject-below 1.01", "above 0 and at most 1, got"),
    ("predict trained only.npz --out {out}.csv --reject-below nan", "above 0 and at most 1, got"),
    ("predict trained only.npz --out p.xlsx", "cannot tell the format of 'p.xlsx'.* or be - for"),
    ("predict trained only.npz --out {out}/p.csv", "there is no directory"),
    ("predict trained only.npz --out {out}.csv --reject-novel 2", "--reject-novel must be above 0"),
    ("predict trained only.npz --out {out}.csv --set 0.998", "need 499 validation rows, the model"),
    ("predict regressed numbers.npz --out {out}.csv --reject-below 0.5", "is for classifiers"),
    (f"predict trained only.npz --out {'x' * 300}.csv", "cannot write .*name too long; choose"),
    ("predict trained rows.csv --out rows.csv --force", "holds the rows to predict; choose"),
    ("predict trained rows.csv --out linked.csv --force", "holds the rows to predict; choose"),
    *(
        (f"predict trained only.npz --out {name} --force", "does not hold such predictions")
        for name in ("mine.csv", "mine.zarr", "file.zarr", "group.zarr")
    ),
    ("predict trained only.npz --out {out}.csv --kinds a=number", "No such option '--kinds'"),
    ("explain trained only.npz --weight-column a", "No such option '--weight-column'"),
    ("explain trained only.npz --rows x", "--rows must be such as 0,5,7 or 0:10, among"),
    ("explain trained only.npz --rows 0,100", "among the 100 rows, got '100'"),
    ("explain trained only.npz --rows 5:5", "among the 100 rows, got '5:5'"),
    ("explain trained only.npz --most 0", "--most must be at least 1, got 0"),
    ("explain trained only.npz --image 2x2", "give --plots"),
    ("explain trained only.npz --plots {out} --image 3x3", "4 columns do not make an image of 3x3"),
    # estimates
    ("estimate pair.npz --n-active 301", "--n-active 301 exceeds the 300 training rows"),
    ("estimate pair.npz --likelihood probit", "needs exactly 2 classes, got 3"),
    ("estimate words.npz --task regression", "numbers"),
]


def one_line(result, pattern):
    """Assert that nothing but one line of error was written, and that it says the right thing."""
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert re.match(f"error: .*{pattern}", lines[0]), lines[0]


@pytest.mark.parametrize(("words", "pattern"), REFUSED)
def test_refused(words, pattern, files, trained, regressed, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    out, runs = tmp_path / "out", {"trained": trained, "regressed": regressed}
    words = [str(runs.get(word, word.format(out=out, **runs))) for word in shlex.split(words)]
    if words[0] in {"train", "tune", "update"}:
        words += ["--quiet"] if "--out" in words else ["--out", out, "--quiet"]
    with untouched(files), untouched(trained):
        one_line(invoke(*words, code=2), pattern)
    assert list(tmp_path.iterdir()) == []


def test_a_computation_that_fails_does_so_in_one_line(files, tmp_path):
    """Without the warnings of numpy about what overflowed on the way."""
    per_class = "--kernel-per-class --likelihood softmax --n-active 20"
    for data, how, said in (
        ("numbers", "--task regression --learn evidence --kernel 'ard(1e-154, 1, 1, 1)'", "finite"),
        ("pair", f"{per_class} --kernel 200*rbf --sites moments", "a Cholesky factor is not fini"),
        ("pair", f"{per_class} --kernel 1e25*linear --posterior active", "inputs, weights or ker"),
    ):
        words = ("--out", tmp_path / "out", "--overwrite", "--quiet", *shlex.split(how))
        one_line(invoke("train", files / f"{data}.npz", *words, code=2), said)


def damage(file):
    content = file.read_bytes()
    half = len(content) // 2
    file.write_bytes(content[:half] + bytes(200) + content[half + 200 :])  # more than a header


class TestAltered:
    @pytest.fixture
    def run(self, trained, tmp_path):
        return shutil.copytree(trained, tmp_path / "run")

    @pytest.fixture
    def unfinished(self, run):
        (run / MODEL_FILE).unlink()
        return run

    @pytest.mark.parametrize("command", ["inspect", "evaluate", "predict"])
    def test_model(self, command, run, files, tmp_path):
        damage(run / MODEL_FILE)
        rest = () if command == "inspect" else (files / "only.npz",)
        rest += ("--out", tmp_path / "p.csv") if command == "predict" else ()
        one_line(invoke(command, run, *rest, code=2), r".*model\.zarr\.zip is damaged")
        assert not (tmp_path / "p.csv").exists()

    @pytest.mark.parametrize("content", ["{", '{"settings": 3}', None])
    def test_nothing_to_go_on_from(self, content, unfinished, files):
        """A manifest, or all checkpoints."""
        said = r"run\.json is damaged" if content else "no checkpoint in .* can be used"
        said += ".*, or start again with --overwrite"
        if content:
            (unfinished / "run.json").write_text(content)
        for step in () if content else checkpoints(unfinished):
            damage(unfinished / f"checkpoint-{step:08d}.zarr.zip")
        with untouched(unfinished):
            one_line(invoke("inspect", unfinished, code=2), said)
            again = ("--n-active", 40, "--quiet", "--resume", "--out", unfinished)
            one_line(invoke("train", files / "pair.npz", *again, code=2), said)

    def test_no_checkpoint_yet(self, unfinished):
        for step in checkpoints(unfinished):
            (unfinished / f"checkpoint-{step:08d}.zarr.zip").unlink()
        record = told("inspect", unfinished)
        assert (record["n_active"], record["active_rows"], record["history"]) == (0, [], [])
        progress = {"stage": "posterior", "done": 3, "total": 0, "unit": "rounds"}
        (unfinished / "progress.json").write_text(json.dumps(progress))
        shown = invoke("inspect", unfinished).stdout
        assert "0 of 40" in shown
        assert "posterior: 3 rounds" in shown
        one_line(invoke("evaluate", unfinished, "toy", code=2), "holds no finished model; continue")


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_what_is_finished_stays_as_it_is_and_is_shown(resume, trained, files):
    arguments = ("--n-active", 40, "--out", trained, "--quiet", "--json", *resume)
    locked = (trained / "lock").stat().st_mtime_ns
    with untouched(trained):
        result = invoke("train", files / "pair.npz", *arguments)
    assert (trained / "lock").stat().st_mtime_ns == locked, "which may be read-only"
    assert "is finished; nothing to do" in result.stderr
    record = json.loads(result.stdout)
    assert (record["n_active"], record["n"]) == (40, 100)


def test_overwritten(trained, files, tmp_path):
    run, data = shutil.copytree(trained, tmp_path / "run"), files / "pair.npz"
    (run / "mine.txt").write_text("!")
    shutil.copytree(run, run / "tuning")
    arguments = ("--n-active", 20, "--quiet", "--out", run)
    for kernel in ("rbf", "auto"):
        both = ("--kernel", kernel, "--overwrite", "--resume")
        one_line(invoke("train", data, *arguments, *both, code=2), "give only one of")
        nowhere = ("--kernel", kernel, "--overwrite", "--scratch", tmp_path / "nowhere")
        said = r"cannot reserve \d\S* \S+ in .*nowhere: .*; name another --scratch"
        one_line(invoke("train", data, *arguments, *nowhere, code=2), said)
    assert len(sparsegp.load(run).rows) == 40
    record = told("train", data, *arguments, "--overwrite")
    assert record["n_active"] == len(sparsegp.load(run).rows) == 20
    assert sorted(path.name for path in (run / "tuning").iterdir()) == ["lock", "mine.txt"]
    assert (run / "mine.txt").exists()
    assert max(checkpoints(run)) < 100


def test_what_a_killed_start_left_holds_no_run(files, tmp_path):
    """That is the lock alone, or a half-written manifest."""
    for name, resume in (("a", ()), ("b", ("--resume",))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").write_text("process 1 on earth\n")
        (tmp_path / name / f".run.json.{'0' * 32}.tmp").write_text("{")
        arguments = ("--n-active", 5, "--quiet", "--out", tmp_path / name)
        invoke("train", files / "pair.npz", *arguments, *resume)


@pytest.mark.parametrize(
    ("error", "code", "last"),
    [
        (MemoryError("no 7 TiB"), 2, r"error: memory is full \(no 7 TiB\); free some, or .*"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_may_happen_at_any_time(error, code, last, files, monkeypatch, tmp_path):
    monkeypatch.setattr("sparsegp.fit.api.fit", Mock(side_effect=error))
    result = invoke("train", files / "pair.npz", "--out", tmp_path / "run", "--quiet", code=code)
    assert re.fullmatch(last, result.stderr.splitlines()[-1])


def fill(folder, leaving):
    """Write a file that leaves so many bytes free."""
    disk = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize - leaving))
    return filler


def test_full_disk(small_disk, trained, files):
    """The run goes on without checkpoints as long as it can, and says so."""
    filler = fill(small_disk.path, leaving=40_000)
    run = small_disk.path / "run"
    train = ("train", files / "pair.npz", "--out", run, "--n-active", 40, "--quiet")
    result = invoke(*train, "--checkpoint-every", 10, code=2)
    *warnings, last = result.stderr.splitlines()
    assert all("no checkpoint at " in line for line in warnings)
    assert last.startswith(f"error: cannot write {run}/")
    assert "No space left on device" in last
    filler.unlink()
    invoke(*train, "--resume")
    found = [invoke("evaluate", each, files / "pair.npz").stdout for each in (run, trained)]
    assert found[0] == found[1]


@pytest.mark.parametrize("ending", ["csv", "npz", "zarr"])
def test_full_disk_while_predicting(ending, small_disk, trained, files):
    out = small_disk.path / f"p.{ending}"
    fill(small_disk.path, leaving=4096)
    arguments = ("predict", trained, files / "only.npz", "--latent", "--out", out)
    result = invoke(*arguments, code=2)
    assert result.stderr.startswith(f"error: cannot write {out}: ")
    assert [path.name for path in small_disk.path.iterdir()] == ["filler"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
def test_a_low_limit_of_the_address_space():
    """OpenBLAS would hang with some limits, and crash with others."""
    words = f"ulimit -v 1600000; exec {sys.executable} -m sparsegp train digits"
    how = {"capture_output": True, "text": True, "env": environment()}
    done = subprocess.run(["bash", "-c", words], check=False, timeout=60, **how)
    assert (done.returncode, done.stdout) == (2, "")
    said = "error: the address space of a process must be at least .* raise the limit, ulimit -v\n"
    assert re.fullmatch(said, done.stderr)
