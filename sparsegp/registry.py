"""Named families: kernels, criteria, posteriors, readers are looked up here by name."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

from sparsegp.errors import UnknownNameError, quoted

T = TypeVar("T")


class Registry(dict[str, T]):
    """Members of one family by name, in the order of the names.

    Parameters
    ----------
    family : str
        What the members are, in the singular, for error messages ("kernel").
    """

    def __init__(self, family: str) -> None:
        super().__init__()
        self.family = family

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds its argument under `name`.

        Raises
        ------
        ValueError
            If the name is taken.
        """

        def add(member: T) -> T:
            if name in self:
                raise ValueError(f"{self.family} {name!r} is registered already")
            self[name] = member
            return member

        return add

    def __missing__(self, name: str) -> NoReturn:
        known = ", ".join(self)
        raise UnknownNameError(f"unknown {self.family} {quoted(name)}; known: {known}")

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.keys()))


def call_text(member: Any) -> str:
    """Return a dataclass with a `name` as a call: ``rbf(1.5)``; defaults at the end are left out.

    A tuple that is the only argument, or the last one of a `variadic` member, is spelled out.
    """
    values = [(getattr(member, field.name), field.default) for field in fields(member)]
    while values and values[-1][0] == values[-1][1]:
        values.pop()
    given = [value for value, _ in values]
    spelled = len(given) == 1 or getattr(member, "variadic", False)
    if given and spelled and isinstance(given[-1], tuple):
        given[-1:] = given[-1]
    return f"{member.name}({', '.join(map(repr, given))})" if given else str(member.name)


def read_call(text: str) -> tuple[str, list[Any] | None, dict[str, Any]]:
    """Return name, values and named values of a call: ``gibbs``, ``rbf(1.5)`` or ``ep(damping=1)``.

    Values are Python literals; they are None where there are no parentheses.

    Raises
    ------
    ValueError
        If the text cannot be read.
    """
    try:
        match ast.parse(text.strip(), mode="eval").body:
            case ast.Name(name):
                return name, None, {}
            case ast.Call(ast.Name(name), values, named):
                given = {each.arg or "": ast.literal_eval(each.value) for each in named}
                return name, [ast.literal_eval(value) for value in values], given
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    raise ValueError(text)
