"""Every failure and what it costs, and a long time under all of them at random."""

import os

import pytest

from tests.execution.failure_table import FAILURES, measure
from tests.execution.soak import soak


@pytest.mark.slow
def test_no_failure_changes_the_result_or_lasts() -> None:
    lines = measure([])
    assert len(lines) == len(FAILURES)
    for line in lines:
        assert line.result.endswith(("identical", "names file and block")), line
        assert line.lost < 400, line


@pytest.mark.slow
def test_soak() -> None:
    counts = soak(float(os.environ.get("SPARSEGP_SOAK_SECONDS", "120")))
    print(dict(counts))
    assert counts["runs"] >= 1
    assert all(counts[what] for what in ("kill", "stop", "add", "retire"))
