"""Train, predict, evaluate, inspect and estimate, as a user does it."""

import json
import re
from dataclasses import asdict
from uuid import uuid4

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.datasets import load_iris

import sparsegp
from sparsegp.cli.train import summary
from sparsegp.free_memory import FreeMemory
from sparsegp.store import folder_of
from tests.data.files import untouched
from tests.data.test_virtual import pictures
from tests.processes import invoke, told, train_quickly
from tests.runs import assert_same


def test_json_of_train(files, tmp_path):
    """A file with a test part gives that part as test rows."""
    options = ("--n-active", 20, "--no-lazy", "--seed", 3, "--panel", 5, "--report-every", 5)
    given = (files / "pair.npz", "--test", files / "pair.npz", "--out", tmp_path / "run")
    record = told("train", *given, *options)
    settings = {"n_active": 20, "lazy": False, "seed": 3, "kernel": "50*rbf + 50*matern52"}
    assert record["settings"].items() >= settings.items()
    assert record["kernels"][0].startswith("50.0*rbf(")
    assert (record["rows"], record["columns"], record["n"]) == (300, 4, 100)
    assert 0.0 < record["error"] < 0.3
    assert 0.0 < record["nlpp"] < 1.2
    assert set(record["seconds"]) == {"read", "prepare", "select", "posterior", "evaluate"}
    again = told("evaluate", record["run"], files / "pair.npz")
    for name in ("n", "error", "nlpp", "brier", "ece", "confusion"):
        assert again[name] == record[name]
    shares = np.sum(record["confusion"], axis=1) / record["n"]
    alone = f"error {100 * (1 - shares.max()):.2f} %, nlpp {entropy(shares):.4f} nats"
    assert alone in invoke("evaluate", record["run"], files / "pair.npz").stdout
    history = told("inspect", record["run"])["history"]
    assert [point["n_active"] for point in history] == [5, 10, 15, 20]
    assert 0.0 <= history[-1]["train_error"] < 0.3
    assert record["train_error"] is None  # that is of the selection, not of the model


def test_without_held_out_rows(files, tmp_path):
    record = told("train", files / "words.npz", "--out", tmp_path / "run", "--n-active", 9)
    assert record["classes"] == ["low", "mid", "up"]
    assert record["n"] is record["held_out"] is record["error"] is record["nlpp"] is None
    gone = summary({**record, "model_bytes": 0}, {})  # another process overwrites the run
    assert gone["model"] == f"{tmp_path}/run/model.zarr.zip, deleted meanwhile"


class TestEvaluate:
    def test_unseen_labels_are_errors(self, trained, files, caplog):
        result = invoke("evaluate", trained, files / "unseen.npz", "--json")
        assert "has labels that the model does not know: 7; they count as errors" in result.stderr
        figures = json.loads(result.stdout)
        share = np.mean(np.load(files / "unseen.npz")["y"] == 7)
        assert (figures["unseen"], figures["n_unseen"]) == ([7], round(100 * share))
        assert figures["error"] >= share
        known = np.sum(figures["confusion"], axis=1)
        alone = f"error {100 - known.max():.2f} %, nlpp {entropy(known):.4f} nats"
        assert alone in invoke("evaluate", trained, files / "unseen.npz").stdout
        with np.load(files / "unseen.npz") as rows, caplog.at_level("WARNING", "sparsegp"):
            found = sparsegp.evaluate(sparsegp.load(trained), rows["X"], rows["y"])
        assert found.to_json()["nlpp"] == figures["nlpp"]
        assert (found.error, found.n_unseen) == (figures["error"], figures["n_unseen"])
        assert "does not know: 7;" in caplog.text

    def test_unseen_labels_while_training(self, files, tmp_path):
        arguments = ("--test", files / "unseen.npz", "--out", tmp_path / "my run", "--n-active", 9)
        result = invoke("train", files / "pair.npz", *arguments, "--quiet")
        assert result.stderr.startswith("warning: ")
        assert "of them" in result.stdout
        assert re.match(r"error .* nats, of the \d+ other rows\n", result.stdout)
        assert len(re.findall(r"nlpp .* nats, of the \d+ other rows", result.stdout)) == 2
        assert f"sparsegp predict '{tmp_path / 'my run'}' DATA" in result.stdout


class TestInspect:
    def test_finished(self, trained):
        record = told("inspect", trained)
        assert record["state"] == "finished"
        assert record["active_rows"] == sparsegp.load(trained).rows.tolist()
        assert record["classes"] == [0, 1, 2]
        assert record["settings"]["n_active"] == record["n_active"] == record["n_wanted"] == 40
        assert record["history"][-1]["n_active"] == 40
        assert record["seconds"] > 0
        assert set(record["sizes"]) == {"model", "checkpoints"}
        text = invoke("inspect", trained).stdout
        assert "40 of 40" in text
        assert "heldout_error" not in text  # that of the selection, not of the model

        alone = told("inspect", trained / "model.zarr.zip")
        assert (alone["state"], set(alone["sizes"])) == ("finished", {"model"})

    @pytest.mark.parametrize("calibration", ["learned", "none"])
    def test_calibration_and_posterior(self, calibration, files, tmp_path):
        options = ("--n-active", 20, "--posterior", "all", "--calibration", calibration, "--quiet")
        run = tmp_path / "run"
        invoke("train", files / "pair.npz", "--out", run, *options)
        record = told("inspect", run)
        model = sparsegp.load(run)
        assert record["calibration"] == asdict(model.weights.calibration)
        assert (record["calibration"]["prior_scale"] != 1.0) == (calibration == "learned")
        assert record["posterior"] == model.weights.report
        text = invoke("inspect", run).stdout
        assert f"temperature {model.weights.calibration.temperature:.5g}, variance weight" in text
        assert f"penalised log likelihood {record['posterior']['objective']:.5g}" in text


def test_regression(files, tmp_path):
    run, data = tmp_path / "run", files / "numbers.npz"
    options = ("--task", "regression", "--kernel", "1*ard", "--n-active", 60, "--quiet")
    learning = ("--learn", "evidence", "--major-steps", 3, "--minor-steps", 4)
    shown = invoke("train", data, "--out", run, *options, *learning, "--report-every", 20).stdout
    for words in ("a regression", "  r2 "):
        assert words in shown
    with np.load(files / "numbers.npz") as rows:
        np.savez(tmp_path / "one.npz", X=rows["X_test"][:1], y=rows["y_test"][:1])
    other = tmp_path / "other"
    test = ("--test", tmp_path / "one.npz")
    shown = invoke("train", files / "only.npz", "--out", other, *options, *test).stdout
    assert shown.startswith("r2 undefined on 1 test row\n")
    assert told("estimate", data, "--task", "regression", *test)["fits"]
    shown = invoke("train", files / "only.npz", "--out", other, *options, "--overwrite").stdout
    assert shown.startswith(f"not tested; sparsegp evaluate {other} FILE measures it on other")
    figures = told("evaluate", run, data)
    assert figures["n"] == 60
    assert figures["mse"] < 6.0
    assert figures["r2"] > 0.9
    assert 0.8 <= figures["coverage"] <= 1.0
    shown = invoke("evaluate", run, data).stdout
    assert "of the 95 % intervals" in shown
    assert "confusion" not in shown
    shown = invoke("evaluate", run, data, "--plots", run / "plots").stdout.splitlines()
    assert shown[-1] == f"picture: {run / 'plots' / 'relevances.png'}"
    shown = invoke("inspect", run).stdout.splitlines()
    assert not any(line.startswith("classes") for line in shown)
    assert [line.split()[0] for line in shown[-8:-5]] == ["1", "2", "3"]  # steps of learning
    ranked = [line.split()[0] for line in shown[-14:-9]]
    assert ranked[:3] == ["column", "0", "2"]  # those that matter
    assert shown[-5].startswith("during selection")
    assert "heldout_mse" in shown[-4]
    record = told("inspect", run)
    assert [len(step["criterion"]) > 1 for step in record["learning"]] == [True] * 3
    assert list(record["relevances"]) == ranked[1:]
    assert sum(record["relevances"].values()) == pytest.approx(1.0)


def test_targets_in_words(tmp_path):
    """They are evaluated, and joined by others, in the form of training."""
    rng = np.random.default_rng(0)
    size = rng.uniform(20.0, 90.0, size=80)
    price = 40.0 * size + 7.0 * rng.standard_normal(80)

    def write(name, form, rows):
        pairs = zip(size[rows], price[rows], strict=True)
        lines = (f'{each},"{form.format(cost)}"\n' for each, cost in pairs)
        (tmp_path / name).write_text("size,price\n" + "".join(lines))
        return tmp_path / name

    old = write("old.csv", "${:,.2f}", slice(50))
    run = train_quickly(old, "--task", "regression")
    for number, form in enumerate(("${:,.2f}", "{:.2f}")):
        new = write("new.csv", form, slice(50, 80))
        assert told("evaluate", run, new)["r2"] > 0.99
        record = told("update", run, new, "--old", old, "--out", f"{run}{number}", "--test", new)
        assert record["after"]["r2"] > 0.99
    other = write("new.csv", "{:.0f} kg", slice(50, 80))
    assert "regression needs numbers as labels" in invoke("evaluate", run, other, code=2).stderr


def test_dense_methods(files, tmp_path):
    data, how = files / "numbers.npz", ("--task", "regression", "--method", "exact")
    command = ("train", data, *how, "--out", tmp_path / "run")
    assert told(*command)["r2"] > 0.8
    assert "is finished" in invoke(*command, "--resume").stderr
    assert "log evidence" in invoke("inspect", tmp_path / "run").stdout
    record = told("estimate", data, *how)
    assert record["total_bytes"] > 8 * record["matrices"] * 200**2
    how = ("--method", "variational", "--out", tmp_path / "classes")
    assert "training error" in invoke("train", files / "only.npz", *how).stdout


@pytest.mark.slow
def test_a_regression_is_that_of_python(files, tmp_path, searching):
    data, run = files / "numbers.npz", tmp_path / "run"
    invoke("train", data, "--task", "regression", "--n-active", 40, "--out", run, "--quiet")
    rows = np.load(data)
    named = {"task": "regression", "n_active": 40}
    expected = sparsegp.train(rows["X_train"], rows["y_train"], **named)
    found = sparsegp.load(run)
    assert found.settings == expected.settings
    assert found.settings["posterior"] == "all"
    assert_same(found, expected, rows["X_test"])


class TestEstimate:
    def test_json(self, files):
        arguments = ("--n-active", 50, "--workers", 2, "--kernel-per-class")
        record = told("estimate", files / "pair.npz", *arguments)
        assert (record["rows"], record["held_out"], record["kernels"]) == (300, 100, 3)
        assert record["blocks"]["stub"] == 3 * 512 * 50 * 4  # two tiles on one of two workers
        assert record["worker_bytes"] > record["blocks"]["stub"]
        assert record["fits"] is True
        assert 0 < record["seconds"] < 30
        text = invoke("estimate", files / "pair.npz", "--kernel", "auto").stdout
        assert "worker" not in text
        assert re.search("time +roughly .* s here, and .* to choose the kernel", text)
        record = told("estimate", "digits")  # pixels
        assert record["searches"] is False
        assert "most_active" not in record

    def test_the_number_of_active_rows_that_a_search_may_choose(self, tmp_path):
        rng = np.random.default_rng(0)
        command = ("estimate", tmp_path / "many.npz", "--kernel", "auto")
        np.savez(command[1], X=rng.normal(size=(5000, 3)), y=rng.integers(0, 2, 5000))
        record = told(*command)
        assert (record["n_active"], record["most_active"]) == (1000, 2000)  # 4000 are too many rows
        largest = told(*command, "--n-active", 2000)
        assert "most_active" not in largest
        assert largest["seconds"] > record["seconds"]
        text = invoke(*command).stdout
        assert re.search("roughly .* s here with 1000 active rows, .* s with 2000, and", text)

    def test_what_would_fit(self, files, monkeypatch):
        free = FreeMemory("this process", "here", 10**6)
        monkeypatch.setattr("sparsegp.free_memory.free_memory", lambda: free)
        text = invoke("estimate", files / "pair.npz", "--kernel", "auto").stdout
        assert "no number of active rows would fit" in text
        free = FreeMemory("this process", "here", 3 * 10**6)
        monkeypatch.setattr("sparsegp.memory.PROCESS", 0)
        text = invoke("estimate", files / "pair.npz", "--threads", 1).stdout
        assert "would fit" in text
        assert "no: " in text

    def test_a_regression(self, files):
        arguments = ("estimate", files / "numbers.npz", "--n-active", 30)
        record = told(*arguments, "--task", "regression")
        assert (record["rows"], record["classes"], record["kernels"]) == (200, 0, 1)
        assert record["n_active"] == 30
        text = invoke(*arguments, "--likelihood", "gaussian").stdout
        assert "200 rows and 60 test rows, 4 columns, a regression" in text


def test_updates_heed_the_column_of_weights_of_the_model(tmp_path):
    table = load_iris(as_frame=True).frame.set_axis([*"abcd", "label"], axis=1)
    table.insert(4, "w", 1 + np.arange(150) % 2)
    rows = {"first": table[::3], "new": table[1::3], "bare": table[1::3].drop(columns="w")}
    for name, part in rows.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    first, new, bare = (tmp_path / f"{name}.csv" for name in rows)
    run = train_quickly(first, "--weight-column", "w")
    for name, old in {"alone": (), "beside": ("--old", first)}.items():
        invoke("update", run, new, *old, "--out", tmp_path / name)
        model = sparsegp.load(tmp_path / name)
        assert (model.inputs, model.weight_column) == (tuple("abcd"), "w")
        assert model.report["weight"] == rows["first"]["w"].sum() + rows["new"]["w"].sum()
    refusal = invoke("update", run, bare, "--out", tmp_path / "none", code=2).stderr
    assert f"{bare} needs the column of weights 'w'; it has none" in refusal


def test_update_with_and_without_old_rows(trained, files, tmp_path):
    data = files / "pair.npz"
    for name, old in {"alone": (), "beside": ("--old", data)}.items():
        record = told("update", trained, data, "--out", tmp_path / name, "--test", data, *old)
        assert (record["rows"], record["new_rows"], record["n_active"]) == (600, 300, 40)
        assert record["after"]["error"] < 0.1
        assert sparsegp.load(record["model"]).rows.max() < 600
        assert ("pair.npz" in record["old"]) if old else record["old"] is None
    result = invoke("update", trained, data, "--out", tmp_path / "shown")
    assert "300 rows, after what the model knows of 300 old rows" in result.stdout
    fewer = ("--n-active", 10, "--out", tmp_path / "shown", "--quiet")
    assert "start again with --overwrite" in invoke("update", trained, data, *fewer, code=2).stderr
    invoke("update", trained, data, *fewer, "--overwrite")
    assert len(sparsegp.load(tmp_path / "shown").rows) == 10


def test_copies_join_the_rows_and_what_was_learnt_stays(tmp_path):
    data, first, out = (tmp_path / name for name in ("images.npz", "first", "second"))
    (X, y), (X_test, y_test) = pictures(200, 0), pictures(80, 1)
    np.savez(data, X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    learning = ("--learn", "evidence", "--major-steps", 1, "--minor-steps", 3)
    arguments = ("--likelihood", "probit", "--n-active", 20, "--calibration", "none", "--seed", 3)
    invoke("train", data, "--out", first, *arguments, *learning, "--quiet")
    arguments = ("--virtual", first, "--image", "6x5", "--n-active", 50, "--quiet")
    with untouched(first):
        record = told("train", data, "--out", out, *arguments)
    assert (record["rows"], record["n_active"], record["n"]) == (200 + 4 * 20, 50, 80)
    assert record["source"].endswith("and 80 virtual rows")
    again = invoke("train", data, "--out", out, *arguments, "--resume")
    assert "is finished; nothing to do" in again.stderr
    former, model = sparsegp.load(first), sparsegp.load(out)
    table = sparsegp.virtual_rows(former, (X, y), "shift", image=(6, 5))
    by_hand = sparsegp.train(table, **sparsegp.same_settings(former, n_active=50))
    assert_same(model, by_hand, X_test)
    assert by_hand.settings == model.settings


class TestStore:
    """Without a server; runs with one are in tests/store."""

    @pytest.fixture
    def run(self):
        return f"memory://{uuid4().hex}/run"

    def test_a_run(self, run, trained, files, tmp_path):
        command = ("train", files / "pair.npz", "--out", run, "--n-active", 40, "--quiet")
        record = told(*command, "--checkpoint-every", 10)
        assert (record["run"], record["model"]) == (run, f"{run}/model.zarr.zip")
        assert record["model_bytes"] == folder_of(run).sizes()["model.zarr.zip"]
        in_store, on_disk = (invoke("evaluate", at, files / "pair.npz") for at in (run, trained))
        assert in_store.stdout == on_disk.stdout
        invoke("predict", run, files / "pair.npz", "--out", tmp_path / "p.csv")
        in_store, on_disk = (told("inspect", place) for place in (run, trained))
        assert in_store["state"] == "finished"
        assert in_store["active_rows"] == on_disk["active_rows"]
        assert in_store["sizes"].keys() == on_disk["sizes"].keys()
        for resume in ((), ("--resume",)):
            assert "is finished" in invoke(*command, *resume).stderr
        invoke(*command, "--overwrite", "--seed", 1)
        assert sparsegp.load(run).settings["seed"] == 1

    @pytest.mark.slow
    def test_a_tuning(self, run, files):
        command = ("tune", files / "pair.npz", "--out", run, "--max-trials", 2, "--n-active", 10)
        first = told(*command, "--quiet")
        assert folder_of(f"{run}/tuning").sizes()
        again = told(*command, "--quiet", "--resume")
        assert (again["kernel"], again["trials"]) == (first["kernel"], first["trials"])
        assert told("inspect", run)["state"] == "tuned, not trained"
        other = invoke(*command, "--seed", 1, code=2)  # a finished search stands for its settings
        assert "seed was 0 and is now 1" in other.stderr


@pytest.mark.parametrize(
    "labels", [["-1", "+1", "none"], ["1.0", "2.0", "2.x"], ["1_1", "1_2", "x"]]
)
def test_labels_of_another_file_are_read_as_those_of_the_training_rows(labels, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    rows = [f"{value:.3f},{labels[int(np.digitize(value, [-0.5, 0.5]))]}" for value in x]
    few = [row for row in rows if not row.endswith(labels[2])]  # these alone would be numbers
    for name, lines in {"all.csv": rows, "few.csv": few}.items():
        (tmp_path / name).write_text("\n".join(["a,y", *lines]) + "\n")
    data, test, out = tmp_path / "all.csv", tmp_path / "few.csv", tmp_path / "run"
    record = told("train", data, "--test", test, "--kernel", "9*rbf", "--out", out)
    assert told("evaluate", out, test)["error"] == record["error"] < 0.2


def test_labels_of_zeros_and_ones_are_truth_values_for_a_model_of_these(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    np.savez(tmp_path / "truth.npz", X=x, y=x[:, 0] > 0.0)
    np.savetxt(tmp_path / "digits.csv", np.column_stack([x, x[:, 0] > 0.0]), "%.3f,%.3f,%d")
    out = tmp_path / "run"
    told("train", tmp_path / "truth.npz", "--kernel", "9*rbf", "--out", out)
    assert told("evaluate", out, tmp_path / "digits.csv")["error"] < 0.1
