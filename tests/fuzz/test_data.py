"""Readers of data give a table or a `DataError`, whatever is in the files."""

import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
if sys.platform != "linux":
    pytest.skip("memory is limited by what Linux offers", allow_module_level=True)

from sparsegp.data import encode, open_dataset, summarise
from sparsegp.errors import DataError
from tests.fuzz.data_files import FORMATS, whole
from tests.fuzz.limits import HELD, MEMORY, campaign, outcome

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered in cast:RuntimeWarning"  # of zarr, for a fill value like 1e308
)

QUICK = {"npy": 60, "npz": 60, "idx": 60, "text": 50, "svmlight": 40, "parquet": 40, "zarr": 40}
LONG = int(os.environ.get("SPARSEGP_FUZZ", "1000"))
"""Inputs of each format in the long campaign."""


def write(folder, files):
    """Write files; None becomes a link that leads out of the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.symlink_to("/etc/hostname")
        else:
            path.write_bytes(content)


def read(path):
    table = open_dataset(path).train
    rows = table.X.blocks[0].compute(scheduler="synchronous")
    assert rows.shape == (table.X.chunks[0][0], table.X.shape[1])
    if table.X.numblocks[0] == 1:
        summarise(table.X, table.source, "synchronous")
    return encode(table.y, table.source)


def placed(kind, content, use):
    """Use a file of a format, or the files of a folder, in a folder of its own."""
    name = FORMATS[kind][0]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        files = content if isinstance(content, dict) else {name: content}
        write(folder / name if isinstance(content, dict) else folder, files)
        return use(folder / (name or next(each for each in files if "images" in each)))
    finally:
        shutil.rmtree(folder)


def check(kind, content):
    # the compressors of zarr ask for what the header of a chunk says, and then look at it
    most = MEMORY if kind == "zarr" else HELD
    found = placed(
        kind, content, lambda path: outcome(lambda: read(path), path.parent.name, most=most)
    )
    assert not isinstance(found, Exception) or isinstance(found, DataError)
    if kind not in {"zarr", "parquet"}:
        assert "more memory than there is" not in str(found)


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Libraries are imported before memory is limited, and undamaged files are read."""
    for kind in FORMATS:
        if kind != "npy":  # which has no labels beside it here
            classes, _ = placed(kind, whole(kind), read)
            assert len(classes) in {2, 3}


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(kind):
    campaign(FORMATS[kind][1], partial(check, kind), QUICK[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_many_damaged_files(kind):
    campaign(FORMATS[kind][1], partial(check, kind), LONG)
