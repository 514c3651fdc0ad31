"""Members of families as texts: ``rbf(1.5)`` or ``ep(damping=0.5)``, and how they are read.

A member is a dataclass with a `name`. A text is its name, perhaps with values of its fields in
parentheses, in their order or by name. It is read as a Python expression, but never evaluated.
"""

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from sparsegp.errors import SettingsError, UnknownNameError, quoted, short
from sparsegp.fields import refuse_unknown
from sparsegp.registry import Registry

T = TypeVar("T")


def text_of(member: Any) -> str:
    """Return the text of a member; defaults at the end are left out.

    A tuple that is the last argument of a `variadic` member is spelled out.
    """
    values = [(getattr(member, field.name), field.default) for field in fields(member)]
    while values and values[-1][0] == values[-1][1]:
        values.pop()
    given = [value for value, _ in values]
    if given and member.variadic and isinstance(given[-1], tuple):
        given[-1:] = given[-1]
    return f"{member.name}({', '.join(map(repr, given))})" if given else str(member.name)


def read(
    text: str, registry: Registry[type[T]], example: str, others: Sequence[str] = ()
) -> tuple[type[T], T | None]:
    """Return the class that a text names, and what its values make of it if there are any.

    Parameters
    ----------
    text : str
    registry : Registry
        Of dataclasses.
    example : str
        How to write it, for the refusal.
    others : sequence of str
        Names besides those of the registry that are known, elsewhere.

    Raises
    ------
    UnknownNameError
        If there is no member of that name.
    SettingsError
        If the text cannot be read, or the values do not fit the fields.
    """
    try:
        node = tree(text)
        member, values, named = call(node, registry, others)
        return member, None if isinstance(node, ast.Name) else build(member, values, named)
    except UnknownNameError:
        raise
    except (SettingsError, RecursionError) as error:
        raise SettingsError(
            f"cannot read {registry.family} {short(text)!r}: {error}; write for example {example}"
        ) from None


def tree(text: str) -> ast.expr:
    """Return the syntax tree of a text, or raise a `SettingsError`."""
    if not (line := " ".join(text.split())):
        raise SettingsError("the text is empty")
    try:
        with warnings.catch_warnings(action="ignore"):  # such as of "1or 2", an error here
            return ast.parse(line, mode="eval").body
    except SyntaxError as error:
        part = line[error.offset - 1 :] if error.offset else ""
        reason = f"{error.msg} at {short(part, 40)!r}" if part else f"{error.msg} at its end"
    except ValueError as error:  # characters that no Python text may hold
        reason = str(error)
    except (RecursionError, MemoryError):
        reason = "nested too deeply"
    raise SettingsError(reason)


def call(
    node: ast.expr, registry: Registry[type[T]], others: Sequence[str] = ()
) -> tuple[type[T], list[Any], dict[str, Any]]:
    """Return the member that a part of a syntax tree names, its values, and those by name."""
    match node:
        case ast.Name(name):
            arguments, keywords = list[ast.expr](), list[ast.keyword]()
        case ast.Call(ast.Name(name), arguments, keywords):
            pass
        case _:
            raise SettingsError(f"expected a name, perhaps with values, got {written(node)}")
    if name not in registry:
        known = ", ".join([*others, *registry])
        raise UnknownNameError(f"unknown {registry.family} {quoted(name)}; known: {known}")
    named = {each.arg or "**": literal(each.value) for each in keywords}
    return registry[name], [literal(each) for each in arguments], named


def build(member: type[T], values: Sequence[Any], named: Mapping[str, Any]) -> T:
    """Return a dataclass with a `name`, from values of its fields in their order and by name.

    Raises
    ------
    SettingsError
        If they do not fit the fields.
    """
    of: Any = member
    known = [each.name for each in fields(of)]
    last = len(known) - 1
    if getattr(of, "variadic", False) and values[last:] and not isinstance(values[last], tuple):
        values = [*values[:last], tuple(values[last:])]
    if len(values) > len(known):
        names, several = ", ".join(known) or "none", "s" * (len(known) != 1)
        raise SettingsError(
            f"{of.name} takes at most {len(known)} value{several} ({names}), got {len(values)}"
        )
    given = dict(zip(known, values, strict=False))
    refuse_unknown(named, [name for name in known if name not in given], of.name)
    given.update(named)
    for each in fields(of):
        if each.default is MISSING and each.name not in given:
            raise SettingsError(f"{of.name} needs `{each.name}`")
    return member(**given)


def literal(node: ast.expr) -> Any:
    """Return the value of a literal in a syntax tree; a list is a tuple, too."""
    try:
        value = ast.literal_eval(node)
    except (SyntaxError, ValueError, TypeError):
        raise SettingsError(f"expected a value such as 1.5, got {written(node)}") from None
    return tuple(value) if isinstance(value, list) else value


def written(node: ast.expr) -> str:
    """Return a part of a text, to be shown."""
    return repr(short(ast.unparse(node)))
