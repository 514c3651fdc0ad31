"""Readers of data give a table or a `DataError` in one line, whatever is in the files."""

import sys
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

if sys.platform != "linux":
    pytest.skip("memory is limited by what Linux offers", allow_module_level=True)

from sparsegp.data import encode, open_dataset, summarise
from sparsegp.errors import DataError
from tests.data import files
from tests.fuzz.damage import NUMBERS, altered_folder
from tests.fuzz.limits import HELD, MEMORY, campaign, campaigns, outcome, traced  # noqa: F401 - a fixture

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered in cast:RuntimeWarning"  # of zarr, for a fill value like 1e308
)

X, WHOLE = np.arange(24.0).reshape(8, 3), np.arange(8) % 3
WORDS = np.array(["a", "bé", "c"])[WHOLE]

FORMATS = {
    "X.npy": [partial(files.write_pair, X=np.asfortranarray(X), y=WORDS)],
    "a.npz": [partial(files.write_pair, X=X, y=WORDS)],
    "a-images-idx3-ubyte": [partial(files.write_idx, X=X[:, :2], y=WHOLE)],
    "a-images-idx3-ubyte.gz": [partial(files.write_idx, X=X[:, :2], y=WHOLE)],
    "a.csv": [partial(files.write_text(mark), X=X, y=WORDS) for mark in [", ", ";", " "]],
    "a.parquet": [partial(files.write_parquet, X=X, y=WORDS)],
    "a.zarr": [partial(files.write_pair, X=X, y=WHOLE, zarr_format=form) for form in (2, 3)],
}
"""Writers of small files, by their names."""

TOKENS = '1 -2.5e3 nan inf 1e999 1_0 0x1 ٣ é a " "" "a , ; # \' -0 True 1.0 \uff11'
PIECES = [*TOKENS.split(), "\t", " ", "\n", "\r", "\r\n", "\0", "9" * 400, "a" * 140_000]
"""What texts are put together of."""


@cache
def whole(name, which):
    with tempfile.TemporaryDirectory() as folder:
        FORMATS[name][which](f"{folder}/{name}")
        return files.contents(Path(folder))


@st.composite
def damaged(draw, name):
    """Damage the files of a format, put texts together, or declare arrays that are not there."""
    kind = draw(st.integers(0, 2))
    if kind and name == "a.csv":
        pieces = draw(st.lists(st.sampled_from(PIECES), max_size=30))
        return {name: "".join(pieces).encode()}
    if kind == 2 and name in {"X.npy", "a.npz"}:
        size = st.sampled_from([*NUMBERS, -1, 8, 3, "8", None, 1.5, True, 10**30])
        types = ["<f8", ">i4", "|O", "|V8", "<U2000000000", "<U0", "|S3", "<M8[s]", "<c16", 5]
        shape = tuple(draw(st.lists(size, max_size=3)))
        array = files.npy_that_declares(shape, draw(st.sampled_from(types)), X.tobytes())
        if name == "X.npy":
            return {name: array}
        inputs = draw(st.sampled_from(["X.npy", "X_train.npy", "../X.npy"]))
        members = {inputs: array, "y.npy": files.npy_bytes(WHOLE)}
        return {name: files.zip_bytes(members, draw(st.sampled_from([0, 8, 14])))}
    return draw(altered_folder(whole(name, draw(st.integers(0, len(FORMATS[name]) - 1)))))


def read(path):
    table = open_dataset(path).train
    rows = table.X.blocks[0].compute(scheduler="synchronous")
    assert rows.shape == (table.X.chunks[0][0], table.X.shape[1])
    if table.X.numblocks[0] == 1:
        summarise(table, "synchronous")
    return encode(table.y, table.source)


def check(name, content):
    # the compressors of zarr allocate what the header of a chunk declares before they check it
    most = MEMORY if name == "a.zarr" else HELD
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for each, data in content.items():
            path = Path(folder) / each
            path.parent.mkdir(parents=True, exist_ok=True)
            if data is None:
                path.symlink_to("/etc/hostname")
            else:
                path.write_bytes(data)
        found = outcome(lambda: read(Path(folder) / name), Path(folder).name, most=most)
    assert not isinstance(found, Exception) or isinstance(found, DataError)


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Libraries are imported before memory is limited, and undamaged files are read."""
    for name, writers in FORMATS.items():
        for which in range(len(writers)):
            with tempfile.TemporaryDirectory() as folder:
                writers[which](f"{folder}/{name}")
                assert len(read(Path(folder) / name)[0]) == 3


@campaigns(8, 60)
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(name, examples):
    campaign(damaged(name), partial(check, name), examples)
