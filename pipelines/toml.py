"""Reading TOML files, and errors that name the file and the key."""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparsegp.errors import SettingsError, SparseGPError


def read_toml(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Read a file, and change some of its values.

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
        If there is no such file or it is no TOML, or a change cannot be made.
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
    return content


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


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Name the file and the table whose values cause an error here."""
    try:
        yield
    except SparseGPError as error:
        raise type(error)(f"{name}: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise SettingsError(f"{name}: {error}") from error
