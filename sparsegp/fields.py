"""Declarations of settings and of method options, and the checks derived from them.

A setting is a dataclass field made by `setting`, with its default, help, range or choices, and the
condition under which it applies. The command line, the estimators and their documentation are
generated from these fields, so this module imports nothing that is slow to load.
"""

import math
import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from numbers import Integral, Real
from pkgutil import resolve_name
from textwrap import fill, indent
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

from sparsegp.errors import SettingsError, UnknownNameError, quoted

T = TypeVar("T", bound=type)

LARGEST_INTEGER = 2**63 - 1
ELSEWHERE = {"random_state": "seed", "n_inducing": "n_active", "num_inducing": "n_active"}
"""Names of settings, by the names that other libraries use."""
KINDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple: "numbers in parentheses",
}


@dataclass(frozen=True)
class Setting:
    """Declaration of a setting."""

    name: str
    kind: type  # int, float, str, bool, or tuple of floats
    default: Any
    optional: bool  # whether it may be None
    help: str = ""  # a sentence or two, for the command line and the documentation of estimators
    choices: str | tuple[str, ...] = ()  # allowed names, or the "module:REGISTRY" that holds them
    least: float | None = None  # bounds of its range, of which `above` and `below` are exclusive
    above: float | None = None
    most: float | None = None
    below: float | None = None
    applies: str = ""  # condition under which it has an effect, such as "sites=moments"
    unset: str = ""  # meaning of None, for the help text
    word: str | None = None  # what may be given in place of None, if anything
    listed: bool = False  # whether it is a list, with commas between its items
    flag: str = ""  # option of the command line, if not derived from the name
    negated_help: str = ""  # help if the default is true, as the option then sets it to false

    @property
    def description(self) -> str:
        """Help, preceded by the condition under which the setting applies."""
        text = self.help
        return f"With {self.applies}: {text[0].lower()}{text[1:]}" if self.applies else text

    @property
    def names(self) -> Iterable[str]:
        """Allowed names; empty if any value is allowed."""
        return resolve_name(self.choices) if isinstance(self.choices, str) else self.choices

    def checked(self, value: Any) -> Any:
        """Return a value converted to the type of the setting, for example from NumPy's types.

        Raises
        ------
        SettingsError
            If the value is of another type, or out of range.
        """
        if self.optional and (value is None or (isinstance(value, str) and value == self.word)):
            return None
        if self.kind is tuple and isinstance(value, tuple | list):
            number = replace(self, kind=float)
            return tuple(number.checked(each) for each in value)
        wider = {int: Integral, float: Real}.get(self.kind, self.kind)
        is_flag = type(value).__name__ in {"bool", "bool_"}  # NumPy's too
        if not (is_flag if self.kind is bool else isinstance(value, wider) and not is_flag):
            kind = KINDS[self.kind] + (f" or {self.word}" if self.word else "")
            raise SettingsError(f"{self.name} must be {kind}, got {quoted(value)}")
        try:
            found = self.kind(value)
        except OverflowError:
            found = math.inf
        if self.kind is float and not math.isfinite(found):
            raise SettingsError(f"{self.name} must be a finite number, got {quoted(value)}")
        if self.choices and found not in (names := sorted(self.names)):
            raise UnknownNameError.of(self.name, value, names)
        most = LARGEST_INTEGER if self.kind is int and self.most is None else self.most
        for words, bound, within in (
            ("at least", self.least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", most, operator.le),
            ("below", self.below, operator.lt),
        ):
            if bound is not None and not within(found, bound):
                raise SettingsError(f"{self.name} must be {words} {bound}, got {quoted(value)}")
        return found


def path_text(name: str, path: Any, what: str = "text or a path") -> str:
    """Return a path or a URL as text; raise a SettingsError if it is neither, or empty."""
    text = os.fsdecode(path) if isinstance(path, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise SettingsError(f"{name} must be {what}, got {quoted(path)}")
    return text


def model_of(given: Any) -> Any:
    """Return a model, given itself or a fitted estimator; raise a `SettingsError` otherwise."""
    model = getattr(given, "model_", given)
    if not hasattr(model, "kernels"):
        found = quoted(given)
        raise SettingsError(f"model must be a Model or a fitted estimator, got {found}; fit one")
    return model


def setting(default: Any, help: str = "", **details: Any) -> Any:
    """Return the dataclass field of a setting; `details` are attributes of `Setting`."""
    return field(default=default, metadata={"help": help, **details})


def declared(owner: type) -> Mapping[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    found = {}
    for each in fields(owner):
        kinds = (tuple,) if get_origin(each.type) is tuple else get_args(each.type) or (each.type,)
        (kind,) = (kind for kind in kinds if kind is not NoneType)
        optional = NoneType in kinds
        found[each.name] = Setting(each.name, kind, each.default, optional, **each.metadata)
    return found


@dataclass(frozen=True)
class Checked:
    """A dataclass whose values are checked individually, and converted to their declared types."""

    def __post_init__(self) -> None:
        for each in declared(type(self)).values():
            object.__setattr__(self, each.name, each.checked(getattr(self, each.name)))


def refuse_unknown(names: Iterable[str], known: Iterable[str], whose: str) -> None:
    """Raise a `SettingsError` for names that are not known."""
    known = sorted(known)
    if unknown := sorted(str(name) for name in names if name not in known):
        alike = [ELSEWHERE.get(name, name) for name in unknown]
        near = [each for name in alike for each in get_close_matches(name, known, 1, 0.8)]
        meant = f"did you mean {', '.join(f'`{name}`' for name in near)}? It" if near else "it"
        raise SettingsError(
            f"{whose} has no settings {', '.join(f'`{name}`' for name in unknown)}; {meant} knows "
            f"{', '.join(f'`{name}`' for name in known) or 'none'}"
        )


def docstring_entry(name: str, kind: str, text: str) -> str:
    """Return the numpydoc entry of a parameter."""
    return f"{name} : {kind}\n{indent(fill(text, 92), '    ')}"


def documented(owner: T) -> T:
    """Append the settings of a dataclass to its docstring."""
    entries = [
        docstring_entry(
            each.name,
            each.kind.__name__ + (", optional" if each.optional else ""),
            each.description + (f" None: {each.unset}." if each.unset else ""),
        )
        for each in declared(owner).values()
    ]
    owner.__doc__ = "\n".join([f"{owner.__doc__}\n\nParameters\n----------", *entries])
    return owner
