"""Pipeline files: data, methods, repetitions, and the table with published results."""

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.data import Source, errors_of
from sparsegp.errors import SettingsError
from sparsegp.settings import settings_given

Table = Mapping[str, Any]

BASELINE = {"estimator", "parameters", "scaling", "precision", "probabilities", "baseline"}
"""Keys of a method from another library."""

OURS = {"one_against_rest", "virtual", "kernel_method", "extra", "options", "scratch", "workers"}
OURS |= {"baseline", "keep_rows"}
"""Keys of a method of this package besides its settings (README.md); `KEPT` sets `keep_rows`."""

KEPT = {"reject": ["certainty", "wrong", "information"], "ranks": ["wrong", "nlpp"]}
"""Values per test row that a picture needs; see `pipelines.metrics.Predictions.rows`."""

MORE = ", ..."
"""In the text of a kernel: repeats the number before it for all further columns."""

AXES = ("log length scale", "log deviation")
"""Parameters of a grid: log l and log s of the kernel s^2 exp(-|x - z|^2 / 2 l^2)."""

FINAL = -1
"""Stands for the finished model, in place of a number of active rows."""

KEYS = ["data", "method", "n_active", "metric"]
"""Columns that identify a value of the table."""


@dataclass(frozen=True)
class Cell:
    """A unit of work with its own result: a method on a data set with one seed and one kernel."""

    data: str  # name in the file, like that of the method
    method: str
    seed: int
    source: Source
    spec: Table  # all keys of the method on this data
    point: Mapping[str, float] = field(default_factory=dict)  # point of a grid, by `AXES`

    @property
    def name(self) -> str:
        """Name from data, method, seed, and the point of a grid."""
        point = "".join(f"-{value:.3g}" for value in self.point.values())
        return f"{self.data}-{self.method}-{self.seed}{point}".replace(" ", "-")

    @property
    def key(self) -> str:
        """Digest of everything that determines the result, apart from the data files."""
        text = json.dumps([self.source.table, self.spec, self.seed], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a method of this package."""
        return {k: v for k, v in self.spec.items() if k not in OURS} | {"seed": self.seed}

    @property
    def is_small(self) -> bool:
        """Whether one thread suffices: for dense methods and other libraries, with few rows."""
        return "estimator" in self.spec or self.spec.get("method", "ivm") != "ivm"

    @property
    def task(self) -> str:
        """Name shared by cells that use the same run of a `kernel_method`, one after another."""
        return f"{self.source.table}, {self.seed}" if "kernel_method" in self.spec else self.key


@dataclass(frozen=True)
class Grid:
    """A table ``[grid]``: kernels with a variance s^2 and a length scale l."""

    log_length_scale: Sequence[float]  # lowest and highest value, and number of values
    log_deviation: Sequence[float]
    kernel: str = "{variance}*rbf({length_scale})"
    by: str = "log evidence"  # metric by which the best kernel is chosen
    pictures: Sequence[str] = ("log evidence", "test information bits", "test error %")  # contours

    def points(self) -> Iterator[tuple[dict[str, float], dict[str, str]]]:
        """Yield every point with its kernel, as a setting."""
        axes = (self.log_length_scale, self.log_deviation)
        for log_l, log_s in product(*(np.linspace(a, b, int(n)).tolist() for a, b, n in axes)):
            text = self.kernel.format(variance=math.exp(2.0 * log_s), length_scale=math.exp(log_l))
            yield dict(zip(AXES, (log_l, log_s), strict=True)), {"kernel": text}


@dataclass
class Experiment:
    """A pipeline: the keys of its file (README.md), with cells and claims derived from them.

    Attributes
    ----------
    name, heading : str
        Folder and name of the file; title and paper.
    cells : list of Cell
    baselines : mapping of (data, method) to str
        Baseline of each row of the table; "" if it has none.
    wanted, published, goals : DataFrame
        Values of the table by `KEYS`; rows with `KEYS` and value, where and below; rows with `KEYS`
        and at_most, near and within.
    """

    path: Path
    title: str
    data: Any
    methods: Table
    paper: str = ""
    settings: Table = field(default_factory=dict)
    seeds: int | list[int] = 1
    table: Table = field(default_factory=dict)
    published: Any = ()
    goals: Any = ()
    grid: Any = None  # becomes a `Grid`
    process: Table | None = None  # threads and memory of the processes that measure cells
    picture: str = ""  # "curves" against the active rows, "reject", or "ranks", see `comparison`
    rivals: Sequence[str] = ()  # with "ranks": all methods are compared with the best of these

    def __post_init__(self) -> None:
        self.name = f"{self.path.absolute().parent.name}-{self.path.stem}"
        self.heading = ". ".join(filter(None, (self.title, self.paper)))
        self.grid = None if self.grid is None else Grid(**self.grid)
        names = [self.data] if isinstance(self.data, str) else self.data
        tables = names if isinstance(names, dict) else {name: {} for name in names}
        self.cells: list[Cell] = []
        self.baselines: dict[tuple[str, str], str] = {}
        for (name, of_data), (method, content) in product(tables.items(), self.methods.items()):
            if name in content.get("data", tables):
                self._add(name, of_data, method, content)
        rows = list(self.baselines)
        for (name, method), one in self.baselines.items():
            if one and (name, one) not in rows:
                raise ValueError(f"the baseline of {method}, {one!r}, is no method on {name}")
        self.published = _claims(self.published, ["value", "where", "below"], rows)
        self.goals = _claims(self.goals, ["at_most", "near", "within"], rows)
        self.wanted = _wanted(rows, [self.published, self.goals], **self.table)

    def _add(self, name: str, of_data: Table, method: str, content: Table) -> None:
        """Add the cells of a method on a data set."""
        own = {k: v for k, v in of_data.items() if k not in {"settings", "seeds"}}
        common = {**self.settings, **of_data.get("settings", {})}
        with errors_of(f"data.{name}"):
            source = Source(f"{self.path}: data.{name}", {"source": name, **own})
        with errors_of(f"methods.{method}"):
            spec = _spec(name, content, common)
        self.baselines[name, method] = spec.pop("baseline", "")
        spec |= {"keep_rows": KEPT[self.picture]} if self.picture in KEPT else {}
        points = [({}, {})] if self.grid is None else self.grid.points()
        seeds = of_data.get("seeds", self.seeds)
        keys = range(seeds) if isinstance(seeds, int) else seeds
        for seed, (point, kernel) in product(keys, points):
            self.cells.append(Cell(name, method, seed, source, spec | kernel, point))


def read_experiment(path: Path, changes: Sequence[str] = ()) -> Experiment:
    """Read and check a pipeline file.

    Parameters
    ----------
    path : Path
    changes : sequence of str
        ``key=value``, such as ``seeds=1``, ``settings.n_active=20`` or ``methods.*.n_active=20``.
        The tables must exist. A star stands for all keys of a table; then only values that exist
        are changed.

    Raises
    ------
    SettingsError
        If the file cannot be read, is not valid TOML or no pipeline, or a change is not possible.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also too long numbers, too many brackets
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    for change in changes:
        key, equals, text = change.partition("=")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        if not equals or not _change(content, key.strip().split("."), value):
            raise SettingsError(f"--set takes KEY=VALUE with a key of {path}, got {change!r}")
    with errors_of(str(path)):
        return Experiment(path, **content)


def _change(table: Any, keys: Sequence[str], value: Any, present: bool = False) -> bool:
    """Set a value in a nested table; return whether its place exists."""
    key, *rest = keys
    if not isinstance(table, dict) or (present and not rest and key not in table):
        return False
    if key == "*":
        return sum(_change(inner, rest, value, present=True) for inner in table.values()) > 0
    if rest:
        return _change(table.get(key), rest, value, present)
    table[key] = value
    return True


def _spec(data: str, content: Table, common: Table) -> dict[str, Any]:
    """Return the keys of a method on a data set, with common settings, after checking them."""
    own = {key: value for key, value in content.items() if key not in {"data", "on"}}
    own |= content.get("on", {}).get(data, {})
    if "estimator" in own:
        if unknown := set(own) - BASELINE:
            raise ValueError(f"{unknown.pop()} is not known; known: {', '.join(sorted(BASELINE))}")
        return {key: value for key, value in common.items() if key in BASELINE} | own
    spec = {**common, **own}  # kernels with MORE can only be parsed when columns are known
    leave = OURS | ({"kernel"} if MORE in spec.get("kernel", "") else set())
    settings_given(**{key: value for key, value in spec.items() if key not in leave})
    return spec


def _claims(tables: Any, own: list[str], rows: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Return published results or goals as a data frame."""
    lines = [{"data": rows[0][0], "n_active": FINAL, **table} for table in tables]
    for line in lines:
        if set(line) - {*KEYS, *own} or (line["data"], line["method"]) not in rows:
            known = f"{', '.join(KEYS + own)}; data and methods are {rows}"
            raise ValueError(f"a figure cannot be {line}; it has {known}")
    numbers = {name: float for name in own if name not in {"where", "below"}}
    return pd.DataFrame(lines, columns=KEYS + own).astype({"n_active": int, **numbers})


def _wanted(
    rows: Sequence[tuple[str, str]],
    claims: Sequence[pd.DataFrame],
    columns: Sequence[str] = ("test error %", "test NLPP"),
    n_active: Sequence[int] = (FINAL,),
) -> pd.DataFrame:
    """Return `KEYS` of the values of ``[table]``, of published results and of goals."""
    named = [[*row, n, metric] for n in n_active for row in rows for metric in columns]
    every = [pd.DataFrame(named, columns=KEYS), *(claim[KEYS] for claim in claims)]
    return pd.concat(every).drop_duplicates(ignore_index=True)
