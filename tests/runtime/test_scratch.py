"""Inputs and stub matrices in files: more than memory can hold; test_runs.py has the results."""

import re

import numpy as np
import pytest

from sparsegp.errors import StoreError
from sparsegp.runtime.scratch import zeros_in_file
from tests.processes import run_python

LIMITED = """
import resource, sys
import sparsegp
from sparsegp.data import open_dataset
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]), int(sys.argv[1])))
scratch = sys.argv[3] if len(sys.argv) > 3 else None
model = sparsegp.train(
    open_dataset(sys.argv[2]).train, n_active=256, posterior="adf", criterion="random",
    kernel="rbf(20)", scaling="none", runtime="threads=1", report_every=1000, scratch=scratch,
)
print(len(model.rows))
"""


@pytest.mark.slow
def test_data_larger_than_the_memory_it_is_given(tmp_path):
    n, p = 300_000, 128  # 154 MB of inputs, 307 MB of stub
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, p))
    y = rng.integers(0, 2, n)
    for some in np.array_split(np.arange(n), 10):
        X[some] = rng.standard_normal((len(some), p), dtype=np.float32) + y[some, None]
    X.flush()
    np.save(tmp_path / "y.npy", y)
    words = ("-c", LIMITED, 600 << 20, tmp_path / "X.npy")
    refused = run_python(*words, code=1).stderr
    assert re.search(r"SettingsError.*(may|would) fit: .*scratch=DIR", refused)
    assert run_python(*words, tmp_path).stdout.strip() == "256"


def test_a_directory_that_cannot_take_it_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"cannot reserve 8 MB in .*nowhere.*name another"):
        zeros_in_file(str(tmp_path / "nowhere"), (1000, 1000), np.float64)
