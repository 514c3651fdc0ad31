"""Likelihood texts: ``probit``, or ``probit(-1.5)`` with numbers for its fields, in their order."""

import ast
import re
import sys
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from sparsegp.errors import SettingsError
from sparsegp.likelihoods.base import LIKELIHOODS, Likelihood

TEXT = re.compile(r"\s*([^\s(]*)\s*(?:\((.*)\)\s*)?", re.DOTALL)


@dataclass(frozen=True)
class Wanted:
    """What a text asks for.

    Attributes
    ----------
    family : type of Likelihood
    given : Likelihood or None
        The likelihood itself, if the text has numbers.
    """

    family: type[Likelihood]
    given: Likelihood | None = None

    def start(self, n_classes: int, n_nodes: int = 12) -> Likelihood:
        """Return the likelihood before anything is learnt; see `Likelihood.start`.

        Raises
        ------
        SettingsError
            If the family, or the numbers of the text, are for another number of classes.
        """
        start = self.family.start(n_classes, n_nodes)
        if self.given is None:
            return start
        found, needed = self.given.parameter_names, start.parameter_names
        if found and len(found) != len(needed):
            raise SettingsError(
                f"likelihood={self.given} has {len(found)} parameters, and {n_classes} classes "
                f"need {len(needed)} ({', '.join(needed)}); leave the numbers out, or give all"
            )
        return self.given


def parse(text: str) -> Wanted:
    """Read the text of a likelihood; ``parse(str(likelihood)).given`` is the same again.

    A likelihood all of whose parameters are its defaults has its name alone as text.

    Raises
    ------
    UnknownNameError
        If there is no likelihood of that name.
    SettingsError
        If the text cannot be read, or its numbers do not fit the fields.
    """
    found = TEXT.fullmatch(text)
    if found is None:
        raise _unreadable(text, "expected a name, then numbers in parentheses or nothing")
    name, inside = found.groups()
    family = LIKELIHOODS[_short(name)]
    if inside is None:
        return Wanted(family)
    return Wanted(family, _build(text, family, _values(text, inside)))


def _values(text: str, inside: str) -> tuple[Any, ...]:
    """Return the values between the parentheses, read as the arguments of a call."""
    try:
        match ast.parse(f"_({inside.strip()}\n)", mode="eval").body:
            case ast.Call(ast.Name(), arguments, []):
                return tuple(map(ast.literal_eval, arguments))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        pass
    raise _unreadable(text, "expected numbers between the parentheses")


def _build(text: str, family: type[Likelihood], values: tuple[Any, ...]) -> Likelihood:
    """Return the likelihood whose fields, in their order, have these values."""
    names, hints = [field.name for field in fields(family)], get_type_hints(family)
    if len(names) == 1 and hints[names[0]] is not float and values:
        values = values if isinstance(values[0], tuple) else (values,)
    if len(values) > len(names):
        raise _unreadable(
            text,
            f"{family.name} takes at most {len(names)} ({', '.join(names)}), got {len(values)}",
        )
    given = zip(names, values, strict=False)
    return family(**{name: _converted(text, name, value, hints[name]) for name, value in given})


def _converted(text: str, name: str, value: Any, kind: Any) -> Any:
    """Return a value as the type of its field: float, int or tuple of floats."""
    if kind is int and type(value) is int:
        return value
    fits = type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)
    if kind is float and fits:
        return float(value)
    if kind not in {int, float} and isinstance(value, tuple):
        return tuple(_converted(text, name, each, float) for each in value)
    what = {int: "a whole number", float: "a number"}.get(kind, "numbers in parentheses")
    raise _unreadable(text, f"{name} must be {what}, got {_short(repr(value))}")


def _unreadable(text: str, reason: str) -> SettingsError:
    return SettingsError(
        f"cannot read likelihood {_short(text)!r}: {reason}; write for example 'probit' or "
        f"'probit(-1.5)'"
    )


def _short(text: str) -> str:
    """Return the text, cut where a message would no longer fit a few lines."""
    return text if len(text) <= 120 else f"{text[:117]}..."


def require_task(task: str | None, likelihood: str) -> None:
    """Refuse a task that the likelihood is not for.

    Raises
    ------
    SettingsError
    """
    if task is None:
        return
    if task not in {"classification", "regression"}:
        raise SettingsError(f"task must be classification or regression, got {task!r}")
    numeric = task == "regression"
    if parse(likelihood).family.numeric != numeric:
        fitting = [name for name in LIKELIHOODS if LIKELIHOODS[name].numeric == numeric]
        raise SettingsError(
            f"likelihood={likelihood} is not for task={task}; use one of {', '.join(fitting)}"
        )
