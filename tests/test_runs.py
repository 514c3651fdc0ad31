"""Every kind of run, however it is run: a contract over all of them.

Blocks, chunks, threads, workers, stops and storage change no bit; test_kill.py has the kills. A new
kind of run is one entry of `tests.runs.KINDS`.
"""

from contextlib import suppress

import dask.array as da
import pytest

import sparsegp
from sparsegp.errors import Interrupted
from tests.runs import KINDS, Stopper, assert_same, data_for, params, train

ROWS = {kind: 800 if "stub_entries" in settings else 300 for kind, settings in KINDS.items()}
"""Of two or three blocks, or enough that candidates leave more than once."""


@pytest.fixture(scope="module", params=params(KINDS))
def plain(request):
    """A kind of run, its data and the model of one block in one thread."""
    X, y, X_new = data_for(request.param, ROWS[request.param])
    model = train(request.param, X, y, runtime="threads=1", block_rows=len(X))
    return request.param, X, y, X_new, model


def test_blocks_chunks_and_workers_change_no_bit(plain, workers):
    kind, X, y, X_new, expected = plain
    sparse = {} if "method" in KINDS[kind] else {"block_rows": 256}
    chunks = da.from_array(X, chunks=(101, 3)), da.from_array(y, chunks=333)
    assert_same(train(kind, *chunks, runtime=workers, **sparse), expected, X_new)


def test_stopped_and_resumed_runs_end_with_the_same_bits(plain, tmp_path):
    """In one thread and in two, with arrays in files; the settings of their models repeat them."""
    kind, X, y, X_new, expected = plain
    how = {"out": tmp_path / "run", "resume": True, "scratch": tmp_path}
    stops = 0
    second = 1 if kind == "gibbs" else 2  # which has few slices to be stopped between
    for reports, threads in ((1, 1), (second, 2), (7, 1)):
        with suppress(Interrupted):
            train(kind, X, y, **how, runtime=f"threads={threads}", progress=Stopper(reports))
            break
        stops += 1
    assert stops >= 2
    model = train(kind, X, y, **how)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert_same(model, expected, X_new)
    assert_same(sparsegp.load(tmp_path / "run"), model, X_new)
    if "method" not in KINDS[kind]:
        assert_same(sparsegp.train(X, y, **sparsegp.same_settings(model)), model, X_new)
