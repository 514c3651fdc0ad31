"""Reading tables of a TOML file with errors that name the file and the key."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from sparsegp.errors import SettingsError

T = TypeVar("T")

WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class Section:
    """One table of a TOML file; every key is taken once, and what is left over is an error.

    Parameters
    ----------
    file : str
        Name of the file, for messages.
    place : str
        The table's name in the file, empty for the file itself.
    content : mapping
    """

    def __init__(self, file: str, place: str, content: Mapping[str, Any]) -> None:
        self.file, self.place, self.content = file, place, content
        self._taken: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def error(self, key: str, text: str) -> SettingsError:
        """Return an error that names the file and a key of this table."""
        return SettingsError(f"{self.file}: {self.name(key)} {text}")

    def name(self, key: str) -> str:
        """Return the full name of a key."""
        return ".".join(part for part in (self.place, key) if part)

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return a value of one type; without a default it must be there.

        Raises
        ------
        SettingsError
            If it is missing or of another type.
        """
        self._taken.add(key)
        if key not in self.content:
            if default is None:
                raise self.error(key, f"is missing; it is {WORDS[kind]}")
            return default
        return self._checked(key, self.content[key], kind)

    def maybe(self, key: str, kind: type[T]) -> T | None:
        """Return a value of one type, None if the key is not there."""
        self._taken.add(key)
        return self.take(key, kind) if key in self.content else None

    def take_list(self, key: str, kind: type[T], default: Sequence[T] | None = None) -> list[T]:
        """Return a list whose members have one type."""
        if key not in self.content and default is not None:
            self._taken.add(key)
            return list(default)
        values = self.take(key, list)
        return [self._checked(f"{key}[{i}]", value, kind) for i, value in enumerate(values)]

    def section(self, key: str) -> "Section":
        """Return a table inside this one, empty if it is not there."""
        content = cast("dict[str, Any]", self.take(key, dict, {}))
        return Section(self.file, self.name(key), content)

    def sections(self, key: str) -> list["Section"]:
        """Return the tables of a list of tables (``[[key]]``), none if it is not there."""
        tables = cast("list[dict[str, Any]]", self.take_list(key, dict, []))
        return [
            Section(self.file, f"{self.name(key)}[{i}]", table) for i, table in enumerate(tables)
        ]

    def rest(self) -> dict[str, Any]:
        """Return all that was not taken yet, as it is."""
        left = {key: value for key, value in self.content.items() if key not in self._taken}
        self._taken |= set(left)
        return left

    def done(self) -> None:
        """Refuse keys that nobody took.

        Raises
        ------
        SettingsError
            If there are any.
        """
        for key in self.content:
            if key not in self._taken:
                raise self.error(key, f"is not known; known: {', '.join(sorted(self._taken))}")

    def _checked(self, key: str, value: Any, kind: type[T]) -> T:
        if kind is float and type(value) is int:
            return cast("T", float(value))
        if type(value) is not kind:
            raise self.error(key, f"must be {WORDS[kind]}, got {value!r}")
        return value


def read_toml(path: Path) -> Section:
    """Read a file.

    Raises
    ------
    SettingsError
        If there is none, or it is no TOML.
    """
    try:
        with path.open("rb") as file:
            return Section(str(path), "", tomllib.load(file))
    except OSError as error:
        raise SettingsError(f"cannot read the pipeline {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
