"""What a pipeline file says: data, methods, repetitions, and the table with published figures."""

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
"""Keys of a method of another library."""

OURS = {"one_against_rest", "virtual", "kernel_method", "extra", "options", "scratch", "workers"}
OURS |= {"baseline", "keep_rows"}
"""Keys of a method of ours besides its settings; README.md says what they do."""

KEPT = {"reject": ["certainty", "wrong", "information"], "ranks": ["wrong", "nlpp"]}
"""What pictures need of every test row; see `pipelines.metrics.Predictions.rows`."""

MORE = ", ..."
"""In the text of a kernel: the number before it again and again, one for each column."""

AXES = ("log length scale", "log deviation")
"""log l and log s of the kernel s^2 exp(-|x - z|^2 / 2 l^2)."""

FINAL = -1
"""In place of a number of active rows: the finished model."""

KEYS = ["data", "method", "n_active", "metric"]
"""What a figure of the table is known by."""


@dataclass(frozen=True)
class Cell:
    """What is run and kept by itself: a method on a data set with one seed, and one kernel."""

    data: str  # its name in the file, as that of the method
    method: str
    seed: int
    source: Source
    spec: Table  # all that the file says of the method on this data
    point: Mapping[str, float] = field(default_factory=dict)  # of a grid, by `AXES`

    @property
    def name(self) -> str:
        """Data, method, seed, and the point of a grid."""
        point = "".join(f"-{value:.3g}" for value in self.point.values())
        return f"{self.data}-{self.method}-{self.seed}{point}".replace(" ", "-")

    @property
    def key(self) -> str:
        """Digest of all that the result depends on, apart from the data files."""
        text = json.dumps([self.source.table, self.spec, self.seed], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a method of ours."""
        return {k: v for k, v in self.spec.items() if k not in OURS} | {"seed": self.seed}

    @property
    def is_small(self) -> bool:
        """Whether one thread is enough: it takes all rows, which must be few."""
        return "estimator" in self.spec or self.spec.get("method", "ivm") != "ivm"

    @property
    def task(self) -> str:
        """A name that cells share of which one goes on with the run of another."""
        return f"{self.source.table}, {self.seed}" if "kernel_method" in self.spec else self.key


@dataclass(frozen=True)
class Grid:
    """A table ``[grid]``: kernels with a variance s^2 and a length scale l."""

    log_length_scale: Sequence[float]  # the least value, the greatest, and their number
    log_deviation: Sequence[float]
    kernel: str = "{variance}*rbf({length_scale})"
    by: str = "log evidence"  # the metric that tells the best kernel
    pictures: Sequence[str] = ("log evidence", "test information bits", "test error %")  # contours

    def points(self) -> Iterator[tuple[dict[str, float], dict[str, str]]]:
        """Yield every point, and its kernel as a setting."""
        axes = (self.log_length_scale, self.log_deviation)
        for log_l, log_s in product(*(np.linspace(a, b, int(n)).tolist() for a, b, n in axes)):
            text = self.kernel.format(variance=math.exp(2.0 * log_s), length_scale=math.exp(log_l))
            yield dict(zip(AXES, (log_l, log_s), strict=True)), {"kernel": text}


@dataclass
class Experiment:
    """A pipeline: the keys of its file (README.md), and the cells and claims that follow.

    Attributes
    ----------
    name, heading : str
        Folder and name of the file; title and paper.
    cells : list of Cell
    baselines : mapping of (data, method) to str
        Of each row of the table.
    wanted, published, goals : DataFrame
        Figures of the table by `KEYS`; lines with `KEYS` and value, where and below; lines with
        `KEYS` and at_most, near and within.
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
    process: Table | None = None  # threads and memory of processes in which cells are measured
    picture: str = ""  # "curves" against the active rows, "reject", or "ranks", see `comparison`
    rivals: Sequence[str] = ()  # methods with the better of which all are compared, with "ranks"

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
        """Add the cells of a method on data."""
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
        The tables must be there. A star stands for every one in a table, and then the value must
        be there too.

    Raises
    ------
    SettingsError
        If there is no such file, it is no TOML or no pipeline, or a change cannot be made.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also of numbers too long, and brackets
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
    """Set a value deep in a table; return whether there was a place for it."""
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
    """Return what is said of a method on data, with common settings; refuse what cannot be."""
    own = {key: value for key, value in content.items() if key not in {"data", "on"}}
    own |= content.get("on", {}).get(data, {})
    if "estimator" in own:
        if unknown := set(own) - BASELINE:
            raise ValueError(f"{unknown.pop()} is not known; known: {', '.join(sorted(BASELINE))}")
        return {key: value for key, value in common.items() if key in BASELINE} | own
    spec = {**common, **own}  # the numbers of some kernels follow from the data
    leave = OURS | ({"kernel"} if MORE in spec.get("kernel", "") else set())
    settings_given(**{key: value for key, value in spec.items() if key not in leave})
    return spec


def _claims(tables: Any, own: list[str], rows: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Return published figures or goals as lines."""
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
    """Return `KEYS` of the figures of ``[table]``, of those published, and of goals."""
    named = [[*row, n, metric] for n in n_active for row in rows for metric in columns]
    every = [pd.DataFrame(named, columns=KEYS), *(claim[KEYS] for claim in claims)]
    return pd.concat(every).drop_duplicates(ignore_index=True)
