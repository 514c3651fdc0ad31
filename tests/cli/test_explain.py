"""Reasons, novelty, label sets and figures of two classes, on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics

import sparsegp
from tests.processes import invoke, told


def test_explain(trained, files, tmp_path):
    model, X = sparsegp.load(trained), np.load(files / "only.npz")["X"]
    named = ("explain", trained, files / "only.npz", "--most", 3)
    arguments = (*named, "--rows", "7,2:4")
    expected = [each.to_json() for each in model.explain(X[[7, 2, 3]], 3)]
    record = told(*arguments)
    found = record["explanations"]
    assert [each.pop("row") for each in found] == [7, 2, 3]
    assert [each.pop("id") for each in found] == [{}] * 3
    assert found == json.loads(json.dumps(expected))
    assert f"row 7: {expected[0]['predicted']} (" in invoke(*arguments).stdout
    for more in ((), ("--image", "1x4")):
        invoke(*named, "--rows", 1, "--plots", tmp_path, *more)
    assert {path.name for path in tmp_path.iterdir()} == {"row-1.png", "row-1.svg"}


def test_rows_that_are_no_images_are_explained_in_words(files, tmp_path):
    with np.load(files / "only.npz") as rows:
        np.savez(tmp_path / "rows.npz", X=rows["X"][:, :3], y=rows["y"])
    run, data = tmp_path / "run", tmp_path / "rows.npz"
    invoke("train", data, "--out", run, "--n-active", 20, "--quiet")
    result = invoke("explain", run, data, "--plots", tmp_path / "p")
    assert result.stdout == invoke("explain", run, data).stdout
    assert "nothing is drawn, as 3 columns are not a square image; if" in result.stderr
    assert not (tmp_path / "p").exists()


def test_novelty_and_label_sets_beside_predictions(trained, files, tmp_path):
    model, rows = sparsegp.load(trained), np.load(files / "only.npz")
    X, y = np.concatenate([rows["X"], np.full((1, 4), 50.0)]), np.append(rows["y"], 0)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    arguments = ("predict", trained, tmp_path / "rows.npz", "--set", 0.9, "--novelty")
    arguments += ("--reject-novel", 0.95, "--out")
    result = invoke(*arguments, tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as found:
        np.testing.assert_array_equal(found["novelty"], model.novelty(X))
        np.testing.assert_array_equal(found["set"], model.predict_set(X, 0.9))
        np.testing.assert_array_equal(found["rejected"], found["novelty"] >= 0.95)
        assert found["rejected"][-1]
        assert f"{found['rejected'].sum()} of them rejected (novelty 0.95 or more)" in result.stdout
    header, first, *_ = invoke(*arguments, "-").stdout.splitlines()
    assert header == "row,label,p_0,p_1,p_2,set_0,set_1,set_2,novelty,rejected"
    assert set(first.split(",")[5:8]) <= {"0", "1"}
    sets = model.predict_set(X, 0.9)
    record = told("evaluate", trained, tmp_path / "rows.npz", "--set", 0.9)
    assert record["sets"]["coverage"] == sets[np.arange(len(y)), y].mean()
    assert record["sets"]["mean_size"] == sets.sum(axis=1).mean()
    shown = invoke("evaluate", trained, files / "only.npz", "--set", 0.9).stdout
    assert "contain the true class (0.9 requested)" in shown


@pytest.mark.slow
def test_two_classes(of_two, files, tmp_path):
    data = np.load(files / "two.npz")
    p = sparsegp.load(of_two).predict_proba(data["X_test"])[:, 1]
    truth = data["y_test"] == "yes"
    arguments = ("evaluate", of_two, files / "two.npz")
    record = told(*arguments, "--threshold", 0.3, "--plots", tmp_path / "plots")
    pictures = ("reliability", "error-reject", "confusion", "roc", "precision-recall")
    assert record["pictures"] == [str(tmp_path / "plots" / f"{name}.png") for name in pictures]
    for path in record["pictures"]:
        text = Path(path).with_suffix(".svg").read_text()
        assert "two.npz (X_test); model: " in text
    two = record["two_classes"]
    assert two["positive"] == "yes"
    assert two["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(truth, p))
    assert two["recall"] == pytest.approx(np.mean(p[truth] >= 0.3))
    assert two["precision"] == pytest.approx(np.mean(truth[p >= 0.3]))
    chosen = p >= 0.5
    assert record["precision"] == pytest.approx([np.mean(~truth[~chosen]), np.mean(truth[chosen])])
    assert record["recall"] == pytest.approx([np.mean(~chosen[~truth]), np.mean(chosen[truth])])
    other = told(*arguments, "--positive", "no")["two_classes"]
    assert other["auc"] == pytest.approx(two["auc"])
    assert other["recall"] == pytest.approx(np.mean(p[~truth] <= 0.5))
    shown = invoke(*arguments).stdout
    assert "two.npz (X_test)" in shown
    average = f"average precision {two['average_precision']:.4f} (positive class: yes)"
    assert f"auc           {two['auc']:.4f}, {average}" in shown
