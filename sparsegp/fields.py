"""How settings and options of methods are declared, and the checks that follow from it.

A setting is a dataclass field made by `setting`: default, help, range or choices, and where it
applies. The command line, the estimators and their documentation are made from the same fields, so
this module imports nothing that is slow to load.
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
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin

from sparsegp.errors import SettingsError, UnknownNameError, quoted

T = TypeVar("T", bound=type)

LARGEST_INTEGER = 2**63 - 1
KINDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple: "numbers in parentheses",
}


@dataclass(frozen=True)
class Setting:
    """A setting as it was declared.

    Attributes
    ----------
    name : str
    kind : type
        int, float, str, bool, or tuple of floats.
    default : kind, or None if optional
    optional : bool
        Whether it may be None.
    help : str
        A sentence or two, for the command line and the documentation of estimators.
    choices : str or tuple of str
        The names it may have, or "module:REGISTRY" of them.
    least, above, most, below : float, optional
        Its range; `above` and `below` are bounds that it must not reach.
    applies : str
        What it needs in order to matter, such as "sites=moments".
    unset : str
        What None stands for.
    flag : str
        The option of the command line, where it is another than the name's.
    contrary : str
        Help of that option where the default is true, so that it makes it false.
    """

    name: str
    kind: type
    default: Any
    optional: bool
    help: str = ""
    choices: str | tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    applies: str = ""
    unset: str = ""
    flag: str = ""
    contrary: str = ""

    @property
    def description(self) -> str:
        """Help, with where the setting applies."""
        text = self.help
        return f"With {self.applies}: {text[0].lower()}{text[1:]}" if self.applies else text

    @property
    def names(self) -> Iterable[str]:
        """The names that it may have; none if it is no choice."""
        return resolve_name(self.choices) if isinstance(self.choices, str) else self.choices

    def checked(self, value: Any) -> Any:
        """Return a value as one of the setting's type, also where it was NumPy's.

        Raises
        ------
        SettingsError
            If it is of another type, or out of range.
        """
        if value is None and self.optional:
            return None
        if self.kind is tuple and isinstance(value, tuple | list):
            number = replace(self, kind=float)
            return tuple(number.checked(each) for each in value)
        wider = {int: Integral, float: Real}.get(self.kind, self.kind)
        is_flag = type(value).__name__ in {"bool", "bool_"}  # NumPy's too
        if not (is_flag if self.kind is bool else isinstance(value, wider) and not is_flag):
            raise SettingsError(f"{self.name} must be {KINDS[self.kind]}, got {quoted(value)}")
        try:
            found = self.kind(value)
        except OverflowError:
            found = math.inf
        if self.kind is float and not math.isfinite(found):
            raise SettingsError(f"{self.name} must be a finite number, got {quoted(value)}")
        if self.choices and found not in (names := sorted(self.names)):
            known = ", ".join(names)
            raise UnknownNameError(f"unknown {self.name} {quoted(value)}; known: {known}")
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


def path_text(name: str, path: Any) -> str:
    """Return a path or a URL as text; SettingsError if it is neither."""
    if not isinstance(path, str | os.PathLike) or "\0" in (text := os.fsdecode(path)):
        raise SettingsError(f"{name} must be text or a path, got {quoted(path)}")
    return text


def setting(default: Any, help: str = "", **details: Any) -> Any:
    """Return the dataclass field of a setting; for its details see `Setting`."""
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
    """A dataclass of settings, whose values are checked one by one.

    Raises
    ------
    SettingsError
        If one is of another type than its default, or out of range.
    """

    WHOSE: ClassVar[str] = ""
    """Whose settings they are, for the refusal of unknown names."""

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def from_json(cls, named: Mapping[str, Any]) -> Self:
        """Return settings of which some are named; unknown names are refused."""
        refuse_unknown(named, declared(cls), cls.WHOSE)
        return cls(**named)


def check(owner: object) -> None:
    """Check the values of a dataclass, and make them of the types that it declares."""
    for each in declared(type(owner)).values():
        object.__setattr__(owner, each.name, each.checked(getattr(owner, each.name)))


def refuse_unknown(names: Iterable[str], known: Iterable[str], whose: str) -> None:
    """Raise a `SettingsError` for names that are not among those known."""
    known = sorted(known)
    if unknown := sorted(str(name) for name in names if name not in known):
        near = [each for name in unknown for each in get_close_matches(name, known, 1, 0.8)]
        meant = f"did you mean {', '.join(f'`{name}`' for name in near)}? It" if near else "it"
        raise SettingsError(
            f"{whose} has no settings {', '.join(unknown)}; {meant} knows "
            f"{', '.join(f'`{name}`' for name in known) or 'none'}"
        )


def docstring_entry(name: str, kind: str, text: str) -> str:
    """Return the entry of a parameter in a docstring, as numpydoc has it."""
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
