"""Where a cell runs, and what that costs."""

import platform
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distributions
from os import cpu_count
from pathlib import Path
from subprocess import getstatusoutput
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from sparsegp.progress import Progress
from sparsegp.runtime import Where

LEAST_SECONDS = 0.1
"""Predictions are repeated until they took so much processor time."""

LIBRARIES = ("sparsegp", "numpy", "scipy", "scikit-learn", "lightgbm", "catboost", "gpytorch")
"""Whose versions are kept with results."""


@dataclass(frozen=True)
class Place:
    """Where a cell runs."""

    folder: Path | None  # of data files
    runs: Path | None  # for run directories; None where time and memory of the process are metrics
    where: Where  # as for `sparsegp.train`
    progress: Progress = field(default_factory=Progress)
    costs: dict[str, float] = field(default_factory=dict)  # these metrics

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add what happens here to the costs; memory includes all that the process has loaded."""
        if self.runs is not None:
            yield
            return
        with suppress(OSError):  # let the peak begin anew
            Path("/proc/self/clear_refs").write_text("5")
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        for name, more in (("", time.perf_counter() - wall), ("CPU ", time.process_time() - cpu)):
            self.costs[f"{name}seconds"] = self.costs.get(f"{name}seconds", 0.0) + more
        self.costs["peak memory, MiB"] = max(self.costs.get("peak memory, MiB", 0.0), _peak())

    def predicted(self, predict: Callable[[], Any], rows: int) -> Any:
        """Return predictions of rows; how many are predicted in a CPU second is a metric."""
        began, count, found = time.process_time(), 1, predict()
        if self.runs is None:
            while (seconds := time.process_time() - began) < LEAST_SECONDS:
                predict()
                count += 1
            self.costs["predicted rows / CPU second"] = count * rows / seconds
        return found


@cache
def maker() -> dict[str, str]:
    """Return by what cells are run here.

    That is the machine, the vector instructions of numpy and the kernels of BLAS that ran, versions
    of libraries, and the commit of this folder.
    """
    known = {found.name: found.version for found in distributions()}
    versions = [f"{name} {known[name]}" for name in LIBRARIES if name in known]
    info, here = Path("/proc/cpuinfo"), shlex.quote(str(Path(__file__).parent))
    model = re.findall(r"model name\s*: (.*)", info.read_text() if info.exists() else "")
    failed, commit = getstatusoutput(f"git -C {here} describe --always --dirty")
    config: Any = np.show_config(mode="dicts")
    vectors = config.get("SIMD Extensions", {}).get("found", [])[-1:]
    names = ("internal_api", "version", "architecture")
    blas = (each for each in threadpool_info() if each["user_api"] == "blas")
    kernels = {" ".join(str(each[name]) for name in names if name in each) for each in blas}
    return {
        "machine": f"{cpu_count()} x {model[0] if model else platform.machine()}",
        "kernels": ", ".join([*vectors, *sorted(kernels)]),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "commit": "unknown" if failed else commit,
    }


def _peak() -> float:
    """Return the greatest memory of this process so far in MiB, 0 where Linux does not tell."""
    status = Path("/proc/self/status")
    found = re.findall(r"VmHWM:\s*(\d+)", status.read_text() if status.exists() else "")
    return int(found[0]) / 1024 if found else 0.0
