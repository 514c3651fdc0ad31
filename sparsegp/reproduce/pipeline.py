"""A pipeline: one TOML file that says what is run on which data, and what was published."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from sparsegp.errors import SettingsError
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants import CONTESTANTS
from sparsegp.reproduce.kinds import KINDS, Kind
from sparsegp.reproduce.sources import Source
from sparsegp.reproduce.toml import Section, read_toml
from sparsegp.reproduce.views import read_viewed
from sparsegp.settings import SPARSE, DenseSettings, TrainSettings, settings_given

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

LIKE_DENSE = ("scaling",)
"""Settings of a rival that takes all rows, in a pipeline that is not of rivals alone."""


@dataclass(frozen=True)
class Claim:
    """A figure to stand beside ours: published, or a goal.

    Parameters
    ----------
    variant, what, n_active : str, str, int
        Whose figure, which one, after how many inclusions.
    value : float
    bound : bool
        An upper bound, not the figure itself.
    where : str
        Its place in the paper; empty for a goal.
    within : float, optional
        How far from the value a goal may be missed on either side; without, the value is a bound.
    """

    variant: str
    what: str
    n_active: int
    value: float
    bound: bool
    where: str = ""
    within: float | None = None


@dataclass(frozen=True)
class Report:
    """What is tabulated: every figure after each number of inclusions, for each variant."""

    what: tuple[str, ...]
    n_active: tuple[int, ...]


@dataclass(frozen=True)
class Pipeline:
    """What a pipeline file says; see `read_pipeline`."""

    path: Path
    title: str
    paper: str
    kind_name: str
    cells: tuple[Cell, ...]
    report: Report
    published: tuple[Claim, ...]
    goals: tuple[Claim, ...]

    @property
    def name(self) -> str:
        """Name of the file without its suffix."""
        return self.path.stem

    @property
    def kind(self) -> Kind:
        """How its cells are run."""
        return KINDS[self.kind_name]

    @property
    def variants(self) -> dict[str, list[Cell]]:
        """Cells by variant, in the order of the file."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(cell.variant, []).append(cell)
        return found

    @property
    def tabulated(self) -> Iterator[tuple[str, str, int]]:
        """Every figure of the table once, as variant, what and number of inclusions."""
        claims = [*self.published, *self.goals]
        asked = {(claim.variant, claim.what, claim.n_active) for claim in claims}
        for variant, cells in self.variants.items():
            steps = self.report.n_active or (cells[0].n_active,)
            asked |= {(variant, what, n) for what in self.report.what for n in steps}
        kinds, variants = list(self.kind.figures), list(self.variants)
        yield from sorted(
            asked, key=lambda row: (kinds.index(row[1]), row[2], variants.index(row[0]))
        )


def read_pipeline(path: str | Path) -> Pipeline:
    """Read and check a pipeline file.

    Raises
    ------
    SettingsError
        If it cannot be read, or a key is missing, unknown or wrong; names file and key.
    """
    path = Path(path)
    file = read_toml(path)
    kind = file.take("kind", str, "train")
    if kind not in KINDS:
        raise file.error("kind", f"is {kind!r}; known: {', '.join(KINDS)}")
    title, paper = file.take("title", str), file.take("paper", str, "")
    cells = tuple(_read_cells(file, kind))
    KINDS[kind].check(file, cells)
    report = _read_report(file.section("report"), KINDS[kind], cells)
    claims = _Claims(KINDS[kind], cells)
    published = tuple(claims.read(section) for section in file.sections("published"))
    goals = tuple(claims.read(section, goal=True) for section in file.sections("goals"))
    file.done()
    return Pipeline(path, title, paper, kind, cells, report, published, goals)


def _read_cells(file: Section, kind: str) -> Iterator[Cell]:
    """Yield the cells: every variant with every seed."""
    sources = _read_sources(file.section("data"))
    common = _read_settings(file.section("train"))
    seeds = file.take_list("seeds", int, [0])
    data_seeds = file.take_list("data_seeds", int, seeds)
    for key, values in (("seeds", seeds), ("data_seeds", data_seeds)):
        if not values or len(set(values)) < len(values) or min(values) < 0:
            raise file.error(key, f"must be different numbers from 0 on, got {values}")
    if len(data_seeds) != len(seeds):
        raise file.error(
            "data_seeds", f"must be as many as seeds, {len(seeds)}, got {len(data_seeds)}"
        )
    variants = file.sections("variants")
    if not variants:
        raise file.error("variants", "is missing; a pipeline has at least one [[variants]]")
    seen: set[str] = set()
    for section in variants:
        name = section.take("name", str)
        if not NAME.fullmatch(name) or name in seen:
            raise section.error(
                "name", f"must be small letters, digits and hyphens, and new, got {name!r}"
            )
        seen.add(name)
        data = "" if set(sources) == {""} else section.take("data", str)
        source = _choose_source(section, sources, data)
        options, used = _read_options(section, KINDS[kind])
        given = {k: v for k, v in common.items() if used is None or k in used}
        given |= _read_settings(section, used)
        for seed, data_seed in zip(seeds, data_seeds, strict=True):
            settings = _settings(section, given | {"seed": seed}, dense=used == LIKE_DENSE)
            drawn_with = data_seed if source.seeded else None
            yield Cell(
                name=f"{name}-{seed}",
                variant=name,
                settings=settings,
                source=source,
                data_seed=drawn_with,
                kind=kind,
                data=data,
                options=options,
                used=used,
            )


def _read_options(section: Section, kind: Kind) -> tuple[dict[str, Any], Collection[str] | None]:
    """Return what a variant says besides its settings, and the names of those it depends on."""
    model = section.maybe("model", str) if kind.compares else None
    if model is None:
        options = kind.read_options(section)
        return options, kind.settings_used(options)
    rivals = [name for name in CONTESTANTS if CONTESTANTS[name].settings_used is not None]
    if model not in rivals:
        raise section.error("model", f"is {model!r}; known: {', '.join(rivals)}")
    rival = CONTESTANTS[model]
    options = {"model": model, **rival.read(section)}
    return options, LIKE_DENSE if rival.takes_all_rows else rival.settings_used


def _read_sources(section: Section) -> dict[str, Source]:
    """Read the one data table, or several by name."""
    if "name" in section or "files" in section:
        return {"": read_viewed(section)}
    found = {name: read_viewed(section.section(name)) for name in section.content}
    if not found:
        raise section.error("", "is missing; [data] has a name, or files and origin")
    return found


def _choose_source(section: Section, sources: dict[str, Source], name: str) -> Source:
    if name not in sources:
        raise section.error("data", f"is {name!r}; known: {', '.join(sorted(sources))}")
    return sources[name]


def _read_settings(section: Section, used: Collection[str] | None = None) -> dict[str, Any]:
    """Read the rest of a table as settings, or as those of them that are used."""
    types = _types()
    if used is not None:
        types = {name: kind for name, kind in types.items() if name in used}
    for key in section.rest():
        if key not in types:
            raise section.error(key, f"is not known; known: {', '.join(sorted(types))}")
        section.take(key, types[key])
    return {key: section.content[key] for key in types if key in section.content}


def _types() -> dict[str, type]:
    """Return the types of all settings but the seed; that of an optional one is not None."""
    hints: dict[str, Any] = get_type_hints(DenseSettings) | get_type_hints(TrainSettings)
    del hints["seed"]
    return {name: next(iter(get_args(hint)), hint) for name, hint in hints.items()}


def _settings(
    section: Section, given: dict[str, Any], dense: bool
) -> TrainSettings | DenseSettings:
    if "n_active" not in given and given.get("method", SPARSE) == SPARSE and not dense:
        raise section.error("n_active", "is missing, here and in train")
    try:
        return DenseSettings.given(**given) if dense else settings_given(**given)
    except SettingsError as error:
        raise SettingsError(f"{section.file}: train and {section.place}: {error}") from None


def _read_report(section: Section, kind: Kind, cells: tuple[Cell, ...]) -> Report:
    what = section.take_list("what", str, kind.default_figures)
    for i, name in enumerate(what):
        _check_figure(section, f"what[{i}]", name, kind)
    n_active = section.take_list("n_active", int, [])
    for n in n_active:
        for cell in cells:
            _check_step(section, n, kind, cell)
    section.done()
    return Report(tuple(what), tuple(n_active))


def _check_figure(section: Section, key: str, name: str, kind: Kind) -> None:
    if name not in kind.figures:
        raise section.error(key, f"is {name!r}; known: {', '.join(kind.figures)}")


def _check_step(section: Section, n: int, kind: Kind, cell: Cell) -> None:
    if n == cell.n_active:
        return
    every = 0 if isinstance(cell.settings, DenseSettings) else cell.settings.report_every
    if not (kind.has_curves and 0 < n < cell.n_active and n % every == 0):
        raise section.error(
            "n_active",
            f"must be on the learning curve of {cell.variant} (every {every} up to "
            f"{cell.n_active}), got {n}",
        )


@dataclass(frozen=True)
class _Claims:
    """Reads figures to compare with."""

    kind: Kind
    cells: tuple[Cell, ...]

    def read(self, section: Section, goal: bool = False) -> Claim:
        """Read one table: of `[[published]]`, or of `[[goals]]`."""
        what = section.take("what", str)
        _check_figure(section, "what", what, self.kind)
        cell = self._cell(section)
        n_active = section.take("n_active", int, cell.n_active)
        _check_step(section, n_active, self.kind, cell)
        if goal:
            within = section.take("within", float) if "near" in section else None
            if within is not None and not within >= 0.0:
                raise section.error("within", f"must not be negative, got {within:g}")
            value = section.take("at_most" if within is None else "near", float)
            bound = within is None
            claim = Claim(cell.variant, what, n_active, value, bound, within=within)
        else:
            bound = "below" in section
            value = section.take("below" if bound else "value", float)
            where = section.take("where", str)
            claim = Claim(cell.variant, what, n_active, value, bound, where)
        section.done()
        return claim

    def _cell(self, section: Section) -> Cell:
        names = list(dict.fromkeys(cell.variant for cell in self.cells))
        name = section.take("variant", str, names[0] if len(names) == 1 else None)
        if name not in names:
            raise section.error("variant", f"is {name!r}; known: {', '.join(names)}")
        return next(cell for cell in self.cells if cell.variant == name)
