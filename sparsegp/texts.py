"""Write and read texts, such as ``rbf(1.5)`` or ``ep(damping=0.5)``, for members of a family.

The text of a member is its name, optionally with values of its fields in parentheses, by position
or by name. It is parsed as a Python expression, but never evaluated.
"""

import ast
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, ClassVar, TypeVar

from sparsegp.errors import SettingsError, UnknownNameError, short
from sparsegp.fields import refuse_unknown
from sparsegp.registry import Registry

T = TypeVar("T")


class Member:
    """A dataclass of a family; ``class RBF(Kernel, name="rbf")`` registers it by its name."""

    name: ClassVar[str] = ""
    family: ClassVar[Registry[Any]]
    variadic: ClassVar[bool] = False
    """True if the last field is a tuple whose elements are separate arguments in the text."""

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.name = name
            cls.family.register(name)(cls)

    def __str__(self) -> str:
        """Return the text, without trailing defaults."""
        of: Any = self
        values = [(getattr(self, field.name), field.default) for field in fields(of)]
        while values and values[-1][0] == values[-1][1]:
            values.pop()
        given = [value for value, _ in values]
        if given and self.variadic and isinstance(given[-1], tuple):
            given[-1:] = given[-1]
        return f"{self.name}({', '.join(map(repr, given))})" if given else self.name


def read(
    text: str, registry: Registry[type[T]], example: str, others: Sequence[str] = ()
) -> tuple[type[T], T | None]:
    """Return the class that a text names, and the instance if it has values in parentheses.

    Parameters
    ----------
    text : str
    registry : Registry
        Dataclasses by name.
    example : str
        A correct text, for the error message.
    others : sequence of str
        Valid names that are handled elsewhere, for the error message.

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


_PARSING = threading.RLock()
"""Held while a text is parsed: threads share the filter of warnings and, in Python 3.11, the
recursion depth."""


def tree(text: str) -> ast.expr:
    """Return the syntax tree of a text, or raise a `SettingsError`."""
    if not (line := " ".join(text.split())):
        raise SettingsError("the text is empty")
    try:
        with _PARSING, warnings.catch_warnings(action="ignore"):  # as for "1or 2"
            node = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        part = line[error.offset - 1 :] if error.offset else ""
        reason = f"{error.msg} at {short(part, 40)!r}" if part else f"{error.msg} at its end"
    except ValueError as error:  # characters that Python source cannot contain
        reason = str(error)
    except (RecursionError, MemoryError):
        reason = "nested too deeply"
    else:
        if b"#" not in line.encode()[node.end_col_offset :]:  # Python would ignore what follows
            return node
        reason = "it must not contain '#' outside of names"
    raise SettingsError(reason)


def call(
    node: ast.expr, registry: Registry[type[T]], others: Sequence[str] = ()
) -> tuple[type[T], list[Any], dict[str, Any]]:
    """Return the member that a syntax tree node names, its positional and its named values."""
    match node:
        case ast.Name(name):
            arguments, keywords = list[ast.expr](), list[ast.keyword]()
        case ast.Call(ast.Name(name), arguments, keywords):
            pass
        case _:
            raise SettingsError(f"expected a name, perhaps with values, got {written(node)}")
    if name not in registry:
        raise UnknownNameError.of(registry.family, name, [*others, *registry])
    named = {each.arg or "**": literal(each.value) for each in keywords}
    return registry[name], [literal(each) for each in arguments], named


def build(member: type[T], values: Sequence[Any], named: Mapping[str, Any]) -> T:
    """Create a dataclass with a `name` from positional and named values of its fields.

    Raises
    ------
    SettingsError
        If they do not fit the fields.
    """
    of: Any = member
    known = [each.name for each in fields(of)]
    last = len(known) - 1
    if of.variadic and values[last:] and not isinstance(values[last], tuple):
        values = [*values[:last], tuple(values[last:])]
    if len(values) > len(known):
        names, several = ", ".join(known) or "none", "s" * (len(known) != 1)
        raise SettingsError(
            f"{of.name} takes at most {len(known)} value{several} ({names}), got {len(values)}"
        )
    given = dict(zip(known, values, strict=False))
    refuse_unknown(named, known, of.name)
    if twice := sorted(given.keys() & named):
        raise SettingsError(f"{of.name} has two values of `{twice[0]}`; leave one out")
    given.update(named)
    for each in fields(of):
        if each.default is MISSING and each.name not in given:
            raise SettingsError(f"{of.name} needs `{each.name}`")
    return member(**given)


def literal(node: ast.expr) -> Any:
    """Return the value of a literal in a syntax tree; lists become tuples."""
    try:
        value = ast.literal_eval(node)
    except (SyntaxError, ValueError, TypeError):
        raise SettingsError(f"expected a value such as 1.5, got {written(node)}") from None
    if isinstance(node, ast.Dict) and len(value) < len(node.keys):
        twice = Counter(map(ast.unparse, filter(None, node.keys))).most_common(1)[0][0]
        raise SettingsError(f"a name must have one value, got several for {twice}; leave one")
    return tuple(value) if isinstance(value, list) else value


def written(node: ast.expr) -> str:
    """Return the source text of a syntax tree node, for messages."""
    return repr(short(ast.unparse(node)))
