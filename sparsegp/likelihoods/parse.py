"""Likelihood texts: ``probit``, or ``probit(-1.5)`` with numbers for its fields, in their order."""

from dataclasses import dataclass, fields
from typing import get_type_hints

from sparsegp.errors import SettingsError, short
from sparsegp.likelihoods.base import LIKELIHOODS, Likelihood
from sparsegp.registry import read_call


@dataclass(frozen=True)
class Wanted:
    """What a text describes.

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
    try:
        name, values, named = read_call(text) if text.strip() else ("", None, {})
    except ValueError:
        raise _unreadable(text, "expected a name, then numbers in parentheses or nothing") from None
    family = LIKELIHOODS[short(name)]
    if values is None:
        return Wanted(family)
    names, hints = [field.name for field in fields(family)], get_type_hints(family)
    if len(names) == 1 and hints[names[0]] is not float and values:
        values = values if isinstance(values[0], tuple) else [tuple(values)]
    if named or len(values) > len(names):
        takes = f"{family.name} takes at most {len(names)} ({', '.join(names)})"
        raise _unreadable(text, f"{takes}, without names, got {len(values) + len(named)}")
    try:
        return Wanted(family, family.of(dict(zip(names, values, strict=False))))
    except SettingsError as error:
        raise _unreadable(text, str(error)) from None


def _unreadable(text: str, reason: str) -> SettingsError:
    return SettingsError(
        f"cannot read likelihood {short(text)!r}: {reason}; write for example 'probit' or "
        f"'probit(-1.5)'"
    )
