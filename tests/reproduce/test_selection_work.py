import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparsegp.errors import Interrupted, SparseGPError
from sparsegp.reproduce import reproduce
from sparsegp.reproduce.work import ROWS, bare_products, peak_bytes, product_shapes

PIPELINE = """
kind = "selection-work"
title = "Work"
[data.small]
name = "toy"
n_train = 3000
n_test = 10
[data.file]
origin = "nowhere"
[[data.file.files]]
train = "missing.npz"
[train]
n_active = 64
kernel = "rbf(1)"
[[variants]]
name = "small"
data = "small"
[[variants]]
name = "file"
data = "file"
[[goals]]
variant = "small"
what = "rounds / products"
at_most = 1e9
"""


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "work.toml"
    path.write_text(PIPELINE)
    return path


@pytest.mark.parametrize(("p", "d"), [(784, 2000), (617, 2000), (10, 64), (3, 512), (5, 1025)])
def test_products_take_as_many_operations_as_the_rounds(p, d):
    operations = sum(2 * k * width for k, width in product_shapes(p, d))
    assert operations == pytest.approx(2 * d * p + d * d, rel=1e-3)


def test_products_are_dealt_to_all_threads(monkeypatch):
    rows, names = [], set()
    matmul = np.matmul

    def counted(left, right, out):
        rows.append(len(left))
        names.add(threading.get_ident())
        return matmul(left, right, out=out)

    monkeypatch.setattr(np, "matmul", counted)
    with ThreadPoolExecutor(2) as executor:
        bare_products(2 * ROWS + 11, 3, 4, threads=2)(executor)
    assert sum(rows) == 2 * (2 * ROWS + 11)
    assert len(rows) == 8
    assert len(names) <= 2


def test_peak_memory_is_that_of_this_process():
    before = peak_bytes()
    block = np.ones(2**23)
    assert peak_bytes() >= max(before, block.nbytes)


def test_measures_and_keeps(pipeline, tmp_path):
    out = tmp_path / "out"
    outcome = reproduce(pipeline, out=out, cells="small-0")
    figures = {row.what: row.ours for row in outcome.rows if row.variant == "small"}
    assert figures["rounds / products"] == pytest.approx(
        figures["seconds of rounds"] / figures["seconds of products"]
    )
    assert figures["X + stub, MiB"] == pytest.approx(3000 * (10 + 64) * 4 / 2**20)
    assert figures["peak memory, MiB"] > 10
    assert "<= 1e+09, met" in "\n".join(outcome.lines())
    assert not (out / "curves.csv").exists()
    assert reproduce(pipeline, out=out, cells="small-0").run == []


def test_errors_of_the_measuring_process_are_passed_on(pipeline, tmp_path):
    with pytest.raises(SparseGPError, match=r"work.toml needs missing.npz, from now"):
        reproduce(pipeline, out=tmp_path / "out", cells="file-0")


def test_measurement_can_be_stopped(pipeline, tmp_path):
    pipeline.write_text(PIPELINE.replace("n_train = 3000", "n_train = 2000000"))
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with pytest.raises(Interrupted, match="stopped by SIGTERM at small-0; the same command goes"):
        reproduce(pipeline, out=tmp_path / "out", cells="small-0")
    timer.join()
