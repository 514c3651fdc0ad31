"""Train, predict, evaluate, inspect and estimate, as a user does it."""

import csv
import sys

import numpy as np
import pytest
import zarr

import sparsegp


def test_digits_in_processes_of_their_own(program, tmp_path, last_json):
    code, out, err = program("train", "digits", "--n-active", 60, cwd=tmp_path)
    assert code == 0, err
    assert "digits (train): 1437 rows, 64 columns, 10 classes" in out
    assert "select 60/60 rows" in err
    run = "sparsegp-run-digits"
    assert f"sparsegp predict {run} DATA" in out
    assert {"run.json", "model", "checkpoints", "history.csv"} <= {
        path.name for path in (tmp_path / run).iterdir()
    }
    code, out, err = program("evaluate", run, "digits", "--json", cwd=tmp_path)
    assert (code, err) == (0, "")
    figures = last_json(out)
    assert figures["n"] == 360
    assert figures["error"] < 0.08
    code, out, err = program("predict", run, "digits", "--out", "p.csv", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 361
    code, out, err = program("inspect", run, "--json", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert len(last_json(out)["active_rows"]) == 60
    code, out, err = program("estimate", "digits", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "1437 rows and 360 held out, 64 columns, 10 classes" in out


def test_two_workers_give_the_run_of_two_threads(program, files, trained, tmp_path):
    arguments = ("--n-active", 40, "--checkpoint-every", 10, "--workers", 2, "--json")
    code, out, err = program(
        "train", files / "pair.npz", "--out", "run", *arguments, "--quiet", cwd=tmp_path
    )
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 1
    one, two = sparsegp.load(trained), sparsegp.load(tmp_path / "run")
    np.testing.assert_array_equal(one.rows, two.rows)
    X = np.load(files / "only.npz")["X"]
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_json_of_train(invoke, files, tmp_path, last_json):
    arguments = ("--out", tmp_path / "run", "--n-active", 20, "--no-lazy", "--seed", 3)
    result = invoke("train", files / "pair.npz", *arguments, "--json")
    assert len(result.stdout.splitlines()) == 1
    record = last_json(result.stdout)
    assert record["settings"]["n_active"] == 20
    assert record["settings"]["lazy"] is False
    assert record["settings"]["seed"] == 3
    assert record["settings"]["kernel"] == "50*rbf + 50*matern52"
    assert record["kernels"][0].startswith("50.0*rbf(")
    assert (record["rows"], record["columns"], record["n"]) == (300, 4, 100)
    assert 0.0 < record["error"] < 0.3
    assert 0.0 < record["nlpp"] < 1.2
    assert set(record["seconds"]) == {"read", "prepare", "select", "posterior", "evaluate"}
    again = last_json(invoke("evaluate", record["run"], files / "pair.npz", "--json").stdout)
    for name in ("n", "error", "nlpp", "brier", "ece", "confusion"):
        assert again[name] == record[name]
    history = np.genfromtxt(record["history"], delimiter=",", names=True)
    assert history["n_active"] == 20
    assert history["train_error"] == record["train_error"]


def test_without_held_out_rows(invoke, files, tmp_path, last_json):
    run = tmp_path / "run"
    result = invoke("train", files / "words.npz", "--out", run, "--n-active", 9, "--json")
    record = last_json(result.stdout)
    assert record["classes"] == ["low", "mid", "up"]
    assert record["held_out"] is record["error"] is record["nlpp"] is None


@pytest.mark.parametrize("test", ["pair.npz", "only.npz", "rows.csv"])
def test_held_out_rows_of_another_file(test, invoke, files, tmp_path, last_json):
    """A file with a test part gives that part, any other its only rows."""
    arguments = ("--out", tmp_path / "run", "--n-active", 9, "--json")
    result = invoke("train", files / "pair.npz", "--test", files / test, *arguments)
    assert last_json(result.stdout)["n"] == 100


def test_defaults_of_the_directory(program, files, tmp_path):
    code, _, err = program("train", files / "pair.npz", "--n-active", 5, "--quiet", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["sparsegp-run-pair"]


class TestPredict:
    @pytest.fixture
    def expected(self, trained, files):
        X = np.load(files / "only.npz")["X"]
        model = sparsegp.load(trained)
        mean, variance = model.latent_mean_and_variance(X)
        return model.predict(X), model.predict_proba(X), mean, variance

    @pytest.mark.parametrize("data", ["pair.npz", "unlabelled.npz", "inputs.csv", "rows.csv"])
    def test_csv(self, data, trained, files, expected, invoke, tmp_path):
        out = tmp_path / "p.csv"
        invoke("predict", trained, files / data, "--out", out, "--latent")
        with out.open() as file:
            header, *lines = csv.reader(file)
        names = [f"{kind}_{k}" for kind in ("p", "mean", "variance") for k in range(3)]
        assert header == ["row", "label", *names]
        values = np.array(lines, dtype=float)
        np.testing.assert_array_equal(values[:, 0], np.arange(100))
        np.testing.assert_array_equal(values[:, 1], expected[0])
        np.testing.assert_array_equal(values[:, 2:], np.concatenate(expected[1:], axis=1))

    def test_npz(self, trained, files, expected, invoke, tmp_path):
        out = tmp_path / "p.npz"
        invoke("predict", trained, files / "only.npz", "--out", out, "--latent")
        with np.load(out, allow_pickle=False) as found:
            for name, values in zip(
                ("labels", "probabilities", "latent_mean", "latent_variance"), expected, strict=True
            ):
                np.testing.assert_array_equal(found[name], values)
            assert found["classes"].tolist() == [0, 1, 2]

    def test_zarr(self, trained, files, expected, invoke, tmp_path):
        out = tmp_path / "p.zarr"
        invoke("predict", trained, files / "only.npz", "--out", out)
        group = zarr.open_group(str(out), mode="r")
        assert set(group.array_keys()) == {"labels", "probabilities", "classes"}
        np.testing.assert_array_equal(group["labels"][:], expected[0])
        np.testing.assert_array_equal(group["probabilities"][:], expected[1])

    @pytest.mark.parametrize("ending", ["csv", "npz", "zarr"])
    def test_words_for_labels(self, ending, invoke, files, tmp_path):
        run, out = tmp_path / "run", tmp_path / f"p.{ending}"
        invoke("train", files / "words.npz", "--out", run, "--n-active", 9, "--quiet")
        invoke("predict", run, files / "only.npz", "--out", out)
        if ending == "csv":
            with out.open() as file:
                found = [line["label"] for line in csv.DictReader(file)]
        elif ending == "npz":
            found = np.load(out)["labels"].tolist()
        else:
            found = zarr.open_group(str(out), mode="r")["labels"][:].tolist()
        expected = sparsegp.load(run).predict(np.load(files / "only.npz")["X"])
        assert found == expected.tolist()

    def test_many_chunks(self, trained, files, invoke, tmp_path, monkeypatch):
        invoke("predict", trained, files / "only.npz", "--out", tmp_path / "whole.csv")
        monkeypatch.setattr("sparsegp.data.blocks.BLOCK_VALUES", 4 * 7)
        invoke("predict", trained, files / "only.npz", "--out", tmp_path / "parts.csv")
        assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "parts.csv").read_bytes()

    @pytest.mark.parametrize("ending", ["csv", "npz", "zarr"])
    def test_replaced_only_by_force(self, ending, trained, files, invoke, tmp_path, untouched):
        out = tmp_path / f"p.{ending}"
        arguments = ("predict", trained, files / "only.npz", "--out", out)
        invoke(*arguments)
        with untouched(tmp_path):
            result = invoke(*arguments, "--latent", code=2)
        assert f"{out} exists; choose another --out, or replace it by --force" in result.stderr
        invoke(*arguments, "--latent", "--force")
        assert [path.name for path in tmp_path.iterdir()] == [out.name]
        with untouched(tmp_path):
            invoke(*arguments, "--latent", "--force")

    def test_rejected_rows_in_csv(self, trained, files, expected, invoke, tmp_path):
        out = tmp_path / "p.csv"
        arguments = ("--out", out, "--latent", "--reject-below", 0.8)
        result = invoke("predict", trained, files / "only.npz", *arguments)
        with out.open() as file:
            lines = list(csv.DictReader(file))
        rejected = expected[1].max(axis=1) < 0.8
        assert 0 < rejected.sum() < 100
        assert [line["rejected"] for line in lines] == [str(int(mark)) for mark in rejected]
        assert list(lines[0])[-1] == "rejected"
        said = f"predicted, {rejected.sum()} of them rejected (probability below 0.8): {out}"
        assert said in result.stdout

    @pytest.mark.parametrize("ending", ["npz", "zarr"])
    def test_rejected_rows_in_arrays(
        self, ending, trained, files, expected, invoke, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("sparsegp.data.blocks.BLOCK_VALUES", 4 * 7)
        out = tmp_path / f"p.{ending}"
        invoke("predict", trained, files / "only.npz", "--out", out, "--reject-below", 0.8)
        if ending == "npz":
            with np.load(out) as arrays:
                rejected = arrays["rejected"]
        else:
            rejected = zarr.open_group(str(out), mode="r")["rejected"][:]
        assert rejected.dtype == np.bool_
        np.testing.assert_array_equal(rejected, expected[1].max(axis=1) < 0.8)

    @pytest.mark.parametrize("value", [0, -0.1, 1.01, "nan"])
    def test_least_probability_is_a_probability(self, value, trained, files, invoke, tmp_path):
        arguments = ("--out", tmp_path / "p.csv", "--reject-below", value)
        result = invoke("predict", trained, files / "only.npz", *arguments, code=2)
        assert "--reject-below must be above 0 and at most 1, got " in result.stderr
        assert list(tmp_path.iterdir()) == []


class TestEvaluate:
    def test_pictures(self, trained, files, invoke, tmp_path, last_json):
        folder = tmp_path / "pictures"
        arguments = ("evaluate", trained, files / "pair.npz", "--plots", folder)
        result = invoke(*arguments)
        names = ["reliability", "error-reject", "confusion", "learning-curve"]
        lines = result.stdout.splitlines()[-4:]
        assert lines == [f"picture: {folder / name}.png" for name in names]
        for path in folder.iterdir():
            assert path.read_bytes().startswith(b"\x89PNG")
        pictures = last_json(invoke(*arguments, "--json").stdout)["pictures"]
        assert pictures == [str(folder / f"{name}.png") for name in names]

    def test_pictures_need_matplotlib(self, trained, files, invoke, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        arguments = ("--plots", tmp_path / "pictures")
        result = invoke("evaluate", trained, files / "pair.npz", *arguments, code=2)
        assert 'pictures need matplotlib; install it by pip install "sparsegp[plot]"' in (
            result.stderr
        )
        assert list(tmp_path.iterdir()) == []

    def test_words(self, trained, files, invoke):
        result = invoke("evaluate", trained, files / "pair.npz")
        assert "pair.npz (X_test)" in result.stdout
        assert "confusion" in result.stdout

    def test_unseen_labels_are_errors(self, trained, files, invoke, last_json):
        result = invoke("evaluate", trained, files / "unseen.npz", "--json")
        assert "has labels that the model does not know: 7; they count as errors" in result.stderr
        figures = last_json(result.stdout)
        y = np.load(files / "unseen.npz")["y"]
        assert figures["unseen"] == [7]
        assert figures["n_unseen"] == np.count_nonzero(y == 7)
        assert figures["error"] >= np.mean(y == 7)

    def test_unseen_labels_while_training(self, files, invoke, tmp_path):
        arguments = ("--test", files / "unseen.npz", "--out", tmp_path / "run", "--n-active", 9)
        result = invoke("train", files / "pair.npz", *arguments, "--quiet")
        assert result.stderr.startswith("warning: ")
        assert "labels that" in result.stderr
        assert "of them" in result.stdout


class TestInspect:
    def test_finished(self, trained, invoke, last_json):
        record = last_json(invoke("inspect", trained, "--json").stdout)
        assert record["state"] == "finished"
        assert record["active_rows"] == sparsegp.load(trained).rows.tolist()
        assert record["classes"] == [0, 1, 2]
        assert record["settings"]["n_active"] == record["n_active"] == record["n_wanted"] == 40
        assert record["history"][-1]["n_active"] == 40
        assert record["seconds"] > 0
        assert set(record["sizes"]) == {"model", "checkpoints"}
        text = invoke("inspect", trained).stdout
        assert "40 of 40" in text
        assert "heldout_error" in text

    def test_calibration_and_posterior(self, files, invoke, tmp_path, last_json):
        options = ("--n-active", 20, "--posterior", "all", "--tolerance", 1e-3, "--quiet")
        shown = {}
        for calibration in ("learned", "none"):
            run = tmp_path / calibration
            invoke(
                "train", files / "pair.npz", "--out", run, *options, "--calibration", calibration
            )
            shown[calibration] = last_json(invoke("inspect", run, "--json").stdout)
        model, record = sparsegp.load(tmp_path / "learned"), shown["learned"]
        assert record["settings"]["tolerance"] == 1e-3
        assert record["calibration"]["temperature"] == model.span.calibration.temperature
        assert record["calibration"]["variance_weight"] < 1.0
        assert record["posterior"] == {**model.span.report, "jitter": model.posterior.jitter}
        assert record["posterior"]["rounds"] >= 2
        assert min(record["posterior"]["aside_nlpp"].values()) > 0.0
        assert shown["none"]["calibration"] == {
            "temperature": 1.0,
            "variance_weight": 0.0,
            "prior_scale": 1.0,
        }
        text = invoke("inspect", tmp_path / "learned").stdout
        assert "(temperature), latent variances times " in text
        assert f"objective {record['posterior']['objective']:.6g} nats" in text

    def test_model_alone(self, trained, invoke, last_json):
        record = last_json(invoke("inspect", trained / "model", "--json").stdout)
        assert record["state"] == "finished"
        assert set(record["sizes"]) == {"model"}


class TestEstimate:
    def test_json(self, files, invoke, last_json):
        arguments = ("--n-active", 50, "--workers", 2, "--kernel-per-class", "--json")
        record = last_json(invoke("estimate", files / "pair.npz", *arguments).stdout)
        assert (record["rows"], record["held_out"], record["kernels"]) == (300, 100, 3)
        assert record["blocks"]["stub"] == 3 * 512 * 50 * 4  # two tiles on one of two workers
        assert record["fits"] is True

    def test_what_would_fit(self, files, invoke, monkeypatch):
        monkeypatch.setattr("sparsegp.cli.estimate.available_bytes", lambda: 10**6)
        text = invoke("estimate", files / "pair.npz").stdout
        assert "not even one active row would fit" in text
        monkeypatch.setattr("sparsegp.estimate.sparse.PROCESS_BYTES", 0)
        monkeypatch.setattr("sparsegp.cli.estimate.available_bytes", lambda: 3 * 10**6)
        text = invoke("estimate", files / "pair.npz", "--threads", 1).stdout
        assert "would fit" in text
        assert "no: " in text

    def test_refusals(self, files, invoke):
        result = invoke("estimate", files / "pair.npz", "--n-active", 301, code=2)
        assert "n_active=301 exceeds the 300 training rows" in result.stderr
        assert "at least 1" in invoke("estimate", "toy", "--workers", 0, code=2).stderr
        assert (
            "only one" in invoke("estimate", "toy", "--workers", 1, "--threads", 1, code=2).stderr
        )
