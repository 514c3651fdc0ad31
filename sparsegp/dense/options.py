"""Options: the fields of a frozen dataclass, with their ranges, as text and from text."""

import ast
import operator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from sparsegp.errors import SettingsError
from sparsegp.registry import Registry

T = TypeVar("T")
O = TypeVar("O", bound="Options")  # noqa: E741

LIMITS = {
    "least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "most": ("at most", operator.le),
    "below": ("below", operator.lt),
    "among": ("one of", lambda value, known: value in known),
}
KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a word in ''"}


def option(default: T, **limits: Any) -> T:
    """Return a field of `Options` with a default and limits, names in `LIMITS` and their values."""
    found: T = field(default=default, metadata=limits)
    return found


@dataclass(frozen=True)
class Options:
    """Numbers, words and flags, of the types of their defaults and within their limits.

    Raises
    ------
    SettingsError
        If one is not.
    """

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind, limits = getattr(self, each.name), type(each.default), each.metadata
            if kind is float and type(value) is int:
                object.__setattr__(self, each.name, float(value))
            elif not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
                raise SettingsError(f"{each.name} must be {KINDS[kind]}, got {value!r}")
            if not all(LIMITS[limit][1](value, bound) for limit, bound in limits.items()):
                wanted = [f"{LIMITS[limit][0]} {bound}" for limit, bound in limits.items()]
                raise SettingsError(f"{each.name} must be {' and '.join(wanted)}, got {value!r}")

    def __str__(self) -> str:
        values = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        named = [f"{name}={value!r}" for name, value, default in values if value != default]
        return f"{self.name}({', '.join(named)})" if named else self.name


def parse_options(text: str, registry: Registry[type[O]]) -> O:
    """Return the options of a text: ``ep`` or ``ep(damping=0.5)``; the inverse of ``str``.

    Parameters
    ----------
    text : str
    registry : Registry
        Where the name is looked up.

    Raises
    ------
    UnknownNameError
        If it does not hold the name.
    SettingsError
        If the text cannot be read, or an option is not known or out of range.
    """
    try:
        match ast.parse(text.strip(), mode="eval").body:
            case ast.Name(name):
                values: dict[str, Any] = {}
            case ast.Call(ast.Name(name), [], given):
                values = {one.arg or "": ast.literal_eval(one.value) for one in given}
            case _:
                raise ValueError
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SettingsError(
            f"cannot read {registry.family} {text!r}: expected a name, then name=value in "
            f"parentheses; write for example {next(iter(registry))!r}"
        ) from None
    known = [each.name for each in fields(registry[name])]
    for unknown in values.keys() - set(known):
        found = ", ".join(known) or "none"
        raise SettingsError(f"{registry.family} {name} has no option {unknown}; known: {found}")
    return registry[name](**values)
