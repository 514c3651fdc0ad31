"""Files of predictions in every format."""

import csv
import re
import subprocess

import numpy as np
import pandas
import pytest
import zarr

import sparsegp
from sparsegp.cli.tables import LINES
from tests.data.files import untouched
from tests.processes import invoke, predicted, run_on_terminal, train_quickly

ENDINGS = ["csv", "csv.gz", "tsv", "parquet", "npz", "zarr"]
IN_COLUMNS = ENDINGS[:4]
every_format = pytest.mark.parametrize("ending", ENDINGS)


def read(path):
    """Return the arrays of a file by name, or its columns."""
    if {".csv", ".tsv"} & {*path.suffixes}:
        how = {"sep": "\t" if ".tsv" in path.suffixes else ",", "dtype": str}
        return {name: values.to_numpy() for name, values in pandas.read_csv(path, **how).items()}
    if path.suffix == ".parquet":
        return {name: values.to_numpy() for name, values in pandas.read_parquet(path).items()}
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    return {name: array[:] for name, array in zarr.open_group(str(path), mode="r").arrays()}


@every_format
@pytest.mark.parametrize("data", ["pair.npz", "unlabelled.npz", "rows.csv"])
def test_what_is_written(ending, data, trained, files, tmp_path, monkeypatch):
    """All that can be asked for, in one chunk or in many."""
    model, X = sparsegp.load(trained), np.load(files / "only.npz")["X"]
    if data == "pair.npz":
        monkeypatch.setattr("sparsegp.data.blocks.BLOCK_VALUES", 4 * 7)
    out = tmp_path / f"p.{ending}"
    arguments = ("--out", out, "--latent", "--reject-below", 0.8)
    result = invoke("predict", trained, files / data, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    labels, proba = model.predict(X), model.predict_proba(X)
    mean, variance = model.latent_mean_and_variance(X)
    rejected = proba.max(axis=1) < 0.8
    assert 0 < rejected.sum() < 100
    assert f"{rejected.sum()} of them rejected (probability below 0.8): {out}" in result.stdout
    found = read(out)
    if ending in IN_COLUMNS:
        names = [f"{kind}_{k}" for kind in ("p", "mean", "variance") for k in range(3)]
        assert list(found) == ["row", "label", *names, "rejected"]
        values = np.stack([*found.values()], axis=1).astype(float)
        rest = (labels, *proba.T, *mean.T, *variance.T, rejected)
        np.testing.assert_array_equal(values, np.stack([np.arange(100), *rest], axis=1))
        return
    expected = {"labels": labels, "probabilities": proba, "rejected": rejected}
    expected |= {"latent_mean": mean, "latent_variance": variance, "classes": np.arange(3)}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype


@every_format
def test_words_for_two_classes(ending, of_two, files, tmp_path):
    out, X = tmp_path / f"p.{ending}", np.load(files / "two.npz")["X_test"]
    invoke("predict", of_two, files / "two.npz", "--out", out, "--latent")
    found = read(out)
    if ending in IN_COLUMNS:
        assert list(found) == ["row", "label", "p_no", "p_yes", "latent_mean", "latent_variance"]
    labels = found["label" if ending in IN_COLUMNS else "labels"]
    assert labels.tolist() == sparsegp.load(of_two).predict(X).tolist()


@every_format
def test_mean_and_variance_of_a_regression(ending, regressed, files, tmp_path):
    out = tmp_path / f"p.{ending}"
    invoke("predict", regressed, files / "numbers.npz", "--out", out, "--latent")
    found = read(out)
    model, X = sparsegp.load(regressed), np.load(files / "numbers.npz")["X_test"]
    mean, variance = model.predictive_mean_and_variance(X)
    label = found["label" if ending in IN_COLUMNS else "labels"].astype(float)
    np.testing.assert_array_equal(label, mean)
    np.testing.assert_array_equal(found["variance"].astype(float).ravel(), variance)
    assert "classes" not in found
    spread = found["latent_variance"].astype(float).ravel()
    assert (variance > spread).all()


@every_format
@pytest.mark.parametrize("name", ["label", "row", "novelty", "p_0", "labels", "file", "key", "a/b"])
def test_ids_are_kept_whatever_their_name(ending, name, trained, tmp_path):
    """Also where predictions have a column of that name."""
    lines = "".join(f"{n},5,3,1,u{n}\n" for n in range(9))
    (tmp_path / "rows.csv").write_text(f"a,b,c,d,{name}\n{lines}")
    out = tmp_path / f"p.{ending}"
    arguments = ("--id-column", name, "--novelty", "--out", out)
    invoke("predict", trained, tmp_path / "rows.csv", *arguments)
    found = read(out)
    is_taken, kept = name not in {"key", "a/b"}, name.replace("/", "_" if ending == "zarr" else "/")
    assert found["id_" + name if is_taken else kept].tolist() == [f"u{n}" for n in range(9)]
    assert found["novelty"].astype(float).max() <= 1.0
    assert len(found) == (7 if ending in IN_COLUMNS else 5)


@every_format
def test_replaced_only_by_overwrite(ending, trained, files, tmp_path):
    out = tmp_path / f"p.{ending}"
    arguments = ("predict", trained, files / "only.npz", "--out", out)
    invoke(*arguments)
    with untouched(tmp_path):
        result = invoke(*arguments, "--latent", code=2)
    assert f"{out} exists; choose another --out, or replace it by --overwrite" in result.stderr
    invoke(*arguments, "--latent", "--overwrite")
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    with untouched(tmp_path):
        invoke(*arguments, "--latent", "--force")
    if ending.endswith("gz"):
        assert out.read_bytes()[3:8] == bytes(5)  # neither a name nor a time: always the same bytes


def test_a_stream(trained, files, start, tmp_path):
    """In more than one batch; the first row may not be on line 1."""
    names = ("", " ", '"a\nb",b,c,d')
    X = np.tile(np.load(files / "only.npz")["X"], (1 + LINES // 100, 1))
    lines = [*names, *(",".join(map(repr, row)) for row in X.tolist())]
    how = {"stdin": subprocess.PIPE, "cwd": tmp_path}
    with start("predict", trained, "-", "--out", "-", **how) as process:
        out, err = process.communicate("\n".join(lines) + "\n", timeout=60)
    said = rf"{len(X)} rows of standard input predicted, \d+ per second: -\n"
    assert re.fullmatch(said, err)
    first, *rows = csv.reader(out.splitlines())
    assert first[:2] == ["row", "label"]
    assert [int(row[0]) for row in rows] == list(range(len(X)))
    found = np.array([row[2:] for row in rows], float)
    np.testing.assert_allclose(found, sparsegp.load(trained).predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize(
    ("end", "blank", "mark"),
    [("\n", "\n" * 20, ""), ("\n", "", ""), ("\r\n", "  \r\n" * 3, "sep=,\r\n"), ("\r", "\r", "")],
)
def test_batches_of_a_stream_end_where_rows_do(end, blank, mark, trained, tmp_path, monkeypatch):
    """Whatever blank lines, line breaks in quotes and single quotes there are."""
    monkeypatch.setattr("sparsegp.cli.tables.LINES", 7)
    lines = [f'{n}.5,2,3,4,{n}","a\n\n{n}"' + end for n in range(40)]
    text = mark + blank + blank.join(["a,b,c,d,inch,key" + end, *lines]) + blank
    rows = tmp_path / "rows.csv"
    rows.write_bytes(text.encode())
    how = ("--out", "-", "--id-column", "key", "--drop", "inch")
    expected = invoke("predict", trained, rows, *how).stdout
    assert expected.count("\n") == 41
    assert invoke("predict", trained, "-", *how, text=text).stdout == expected
    bad = text.replace("38.5,2", "38.5,red")
    rows.write_bytes(bad.encode())
    shown = [invoke("predict", trained, of, *how, text=bad, code=2).stderr for of in (rows, "-")]
    found = [text.splitlines(keepends=True)[-1] for text in shown]
    assert re.search(r"'red' in line \d+ \(row 38\), column 'b'", found[0])
    assert found[1] == found[0].replace(str(rows), "standard input")
    nul = invoke("predict", trained, "-", *how, text=text.replace("38.5", "\0"), code=2).stderr
    assert "standard input is not text, as it has NUL" in nul


def test_warnings_of_a_stream_call_it_so(trained):
    err = invoke("predict", trained, "-", "--out", "-", text="p,q,r,s\nt,u,v,w\n", code=2).stderr
    assert err.startswith("warning: standard input: line 1 (p, q, r, s) is taken for the header")


@pytest.mark.parametrize("header", ["x,none,same,z,y\n", ""])
def test_columns_that_a_model_leaves_out_may_stay(header, tmp_path):
    """One without a value, one with a single one; also where the file has no header."""
    lines = "".join(f"{n % 7}.5,NA,red,{n % 5},{'ab'[n % 2]}\n" for n in range(40))
    run, rows, out = tmp_path / "run", tmp_path / "rows.csv", ("--out", tmp_path / "p.csv")
    rows.write_text(header + lines)
    invoke("train", rows, "--n-active", 9, "--out", run)
    invoke("predict", run, rows, *out)
    invoke("evaluate", run, rows)
    if header:
        (tmp_path / "few.csv").write_text("z,x\n1,2.5\n")
        invoke("predict", run, tmp_path / "few.csv", *out, "--overwrite")
        invoke("predict", run, rows, "--drop", "same", *out, "--overwrite")
        for name, said in (("sam", "no column to drop 'sam'"), ("x", "the model needs x of")):
            assert said in invoke("evaluate", run, rows, "--drop", name, code=2).stderr


SIZES = {"very small": "small", "very big": "big", "rather big": "big"}
NUMBERS = {"1,5": "a", "-2,25": "b", "0,125": "b"}


@pytest.mark.parametrize(
    ("header", "mark", "label_of"),
    [("size", ",", SIZES), ("how big", ",", SIZES), ("w", ";", NUMBERS)],
)
def test_a_single_column_of_words_or_of_numbers_with_commas(header, mark, label_of, tmp_path):
    lines = [f"{row}{mark}{label}" for row, label in label_of.items()]
    (tmp_path / "a.csv").write_text("\n".join([f"{header}{mark}y", *lines * 20]))
    (tmp_path / "b.csv").write_text("\n".join([header, *label_of]))
    shown = predicted(train_quickly(tmp_path / "a.csv"), tmp_path / "b.csv")
    assert [line.split(",")[1] for line in shown.split()[1:]] == [*label_of.values()]


@pytest.mark.parametrize(
    "command",
    [("predict", "--out", "p.csv", "--force"), pytest.param(("evaluate",), marks=pytest.mark.slow)],
)
def test_progress_is_shown_on_a_terminal(command, trained, files, tmp_path, monkeypatch):
    name, *rest = command
    words = (name, trained, files / "pair.npz", *rest)
    code, _, shown = run_on_terminal("-m", "sparsegp", *words, cwd=tmp_path)
    assert code == 0
    assert re.search(rf"{name} (\d+)/\1 rows in 0:00:\d\d, rows a second \d+\s*$", shown)
    monkeypatch.chdir(tmp_path)
    assert invoke(*words).stderr == ""
