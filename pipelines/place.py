"""Where a cell runs, and what it costs."""

import platform
import re
import shlex
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distributions
from os import cpu_count
from pathlib import Path
from subprocess import getstatusoutput
from timeit import Timer
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from sparsegp.progress import Progress
from sparsegp.runtime import Where

LIBRARIES = ("sparsegp", "numpy", "scipy", "scikit-learn", "lightgbm", "catboost", "gpytorch")
"""Libraries whose versions are stored with results."""


@dataclass(frozen=True)
class Place:
    """Folders and runtime of a cell, and its costs so far."""

    folder: Path | None  # for data files
    runs: Path | None  # for run directories; None if time and memory are measured
    where: Where  # `runtime` of `sparsegp.train`
    progress: Progress = field(default_factory=Progress)
    costs: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add time and peak memory of the context to the costs, if these are measured.

        Memory is that of the whole process.
        """
        if self.runs is not None:
            yield
            return
        with suppress(OSError):  # reset the peak
            Path("/proc/self/clear_refs").write_text("5")
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.costs["seconds"] += time.perf_counter() - wall
        self.costs["CPU seconds"] += time.process_time() - cpu
        peak = int(_of_linux("self/status", "VmHWM").removesuffix(" kB") or 0) / 1024
        self.costs["peak memory, MiB"] = max(self.costs["peak memory, MiB"], peak)

    def predicted(self, predict: Callable[[], Any], rows: int) -> Any:
        """Call `predict`; if costs are measured, add the rows predicted per CPU second to them."""
        if self.runs is not None:
            return predict()
        found = deque[Any](maxlen=1)
        timer = Timer(lambda: found.append(predict()), timer=time.process_time)
        count, seconds = timer.autorange()  # repeats until the time can be measured
        self.costs["predicted rows / CPU second"] = count * rows / seconds
        return found.pop()


@cache
def maker() -> dict[str, str]:
    """Return machine, vector instructions and BLAS kernels, versions, and the current commit."""
    installed = (found for name in LIBRARIES for found in distributions(name=name))
    versions = [f"{found.name} {found.version}" for found in installed]
    here = shlex.quote(str(Path(__file__).parent))
    failed, commit = getstatusoutput(f"git -C {here} describe --always --dirty")
    config: Any = np.show_config(mode="dicts")
    vectors = config.get("SIMD Extensions", {}).get("found", [])[-1:]
    names = ("internal_api", "version", "architecture")
    blas = (each for each in threadpool_info() if each["user_api"] == "blas")
    kernels = {" ".join(str(each[name]) for name in names if name in each) for each in blas}
    return {
        "machine": f"{cpu_count()} x {_of_linux('cpuinfo', 'model name') or platform.machine()}",
        "kernels": ", ".join([*vectors, *sorted(kernels)]),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "commit": "unknown" if failed else commit,
    }


def _of_linux(file: str, name: str) -> str:
    """Return the value of a name in a file of Linux's /proc; "" if there is none."""
    path = Path("/proc") / file
    found = re.search(rf"^{name}\s*:\s*(.*)", path.read_text() if path.exists() else "", re.M)
    return found[1] if found else ""
