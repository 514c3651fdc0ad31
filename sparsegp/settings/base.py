"""How a setting is declared, and what follows from it: checks, JSON and documentation.

A setting is a dataclass field made by `setting`: default, help, range or choices, and where it
applies. The command line, the estimators and their documentation are made from the same fields, so
this package imports nothing that is slow to load before settings are made.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral, Real
from pkgutil import resolve_name
from textwrap import fill, indent
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, get_args, get_type_hints

from sparsegp.errors import SettingsError, UnknownNameError, quoted

if TYPE_CHECKING:
    from sparsegp.kernels import Kernel
    from sparsegp.likelihoods.parse import Wanted
    from sparsegp.types import Doubles

T = TypeVar("T", bound=type)

MOST_WHOLE = 2**63 - 1
KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class Setting:
    """A setting as it was declared.

    Attributes
    ----------
    name : str
    kind : type
        int, float, str or bool.
    default : kind, or None if optional
    optional : bool
        Whether it may be None.
    help : str
        A sentence or two, for the command line and the documentation of estimators.
    choices : str or tuple of str
        The names it may have, or "module:REGISTRY" of them.
    least, above, most : float, optional
        Its range; `above` is the bound that it must exceed.
    applies : str
        What it needs in order to matter, such as "sites=moments".
    unset : str
        What None stands for.
    flag : str
        The option of the command line, where it is another than the name's.
    """

    name: str
    kind: type
    default: Any
    optional: bool
    help: str
    choices: str | tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    applies: str = ""
    unset: str = ""
    flag: str = ""

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
        """Return a value as one of the setting's type.

        Raises
        ------
        SettingsError
            If it is of another type, or out of range.
        """
        if value is None and self.optional:
            return None
        found = self._converted(value)
        if self.choices and found not in (names := sorted(self.names)):
            known = ", ".join(names)
            raise UnknownNameError(f"unknown {self.name} {quoted(value)}; known: {known}")
        most = MOST_WHOLE if self.kind is int and self.most is None else self.most
        for words, bound, within in (
            ("at least", self.least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", most, operator.le),
        ):
            if bound is not None and not within(found, bound):
                raise SettingsError(f"{self.name} must be {words} {bound}, got {quoted(value)}")
        return found

    def _converted(self, value: Any) -> Any:
        """Return what a number of another type, such as NumPy's, is in the setting's own."""
        wider = {int: Integral, float: Real}.get(self.kind, self.kind)
        is_flag = type(value).__name__ in {"bool", "bool_"}  # NumPy's too
        if is_flag if self.kind is bool else isinstance(value, wider) and not is_flag:
            try:
                found = self.kind(value)
            except OverflowError:
                found = math.inf
            if self.kind is not float or math.isfinite(found):
                return found
        raise SettingsError(f"{self.name} must be {KINDS[self.kind]}, got {quoted(value)}")


def setting(default: Any, help: str, **details: Any) -> Any:
    """Return the dataclass field of a setting; for its details see `Setting`."""
    return field(default=default, metadata={"help": help, **details})


def declared(owner: type) -> Mapping[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    hints, found = get_type_hints(owner), {}
    for each in fields(owner):
        kinds = get_args(hints[each.name]) or (hints[each.name],)
        kind = next(kind for kind in kinds if kind is not NoneType)
        found[each.name] = Setting(
            each.name, kind, each.default, NoneType in kinds, **each.metadata
        )
    return found


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


@dataclass(frozen=True)
class Settings:
    """What all runs are asked; values are checked one by one, then whether they go together."""

    kernel: str = setting(
        "10*rbf",
        "Kernel, such as '10*rbf(5)' or '2*rbf + 0.1*linear'; a length scale left out is chosen "
        "from the data.",
    )
    kernel_per_class: bool = setting(
        False,
        "One kernel for every class; the text of the kernel may then name them all, separated by "
        "semicolons.",
    )
    likelihood: str = setting("", "Name of the likelihood.")
    learn: str = setting("none", "What is learnt of kernels and likelihood.")
    hyperprior: str = setting(
        "",
        "Prior densities of what is learnt, such as 'v: lognormal(-1, 1); bias: normal(0, 25)'; "
        "none if empty.",
        applies="learn",
    )
    scaling: str = setting(
        "auto", "Of inputs: auto, standard, range or none.", choices="sparsegp.data:SCALINGS"
    )
    seed: int = setting(0, "Key of whatever is random.", least=0)

    WHOSE: ClassVar[str] = ""
    """Whose settings they are, for the refusal of unknown names."""

    def __post_init__(self) -> None:
        from sparsegp.kernels import parse

        for each in declared(type(self)).values():
            object.__setattr__(self, each.name, each.checked(getattr(self, each.name)))
        for text in self.kernel.split(";") if self.kernel_per_class else [self.kernel]:
            parse(text.strip())
        for holds, message in self._conflicts():
            if holds:
                raise SettingsError(message)

    def _conflicts(self) -> Iterable[tuple[object, str]]:
        """Return what does not go together: whether it is so, and what to do about it."""
        raise NotImplementedError

    @property
    def wanted_likelihood(self) -> "Wanted":
        """What the text of the likelihood asks for."""
        from sparsegp.likelihoods.parse import parse

        return parse(self.likelihood)

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return self.wanted_likelihood.family.numeric

    def kernels(self, n_latent: int, variances: "Doubles") -> "list[Kernel]":
        """Return the kernels with all length scales filled in.

        Parameters
        ----------
        n_latent : int
            Latent values of a row.
        variances : Doubles (p,)
            Variances of the scaled input columns.
        """
        import numpy as np

        from sparsegp.kernels import parse, parse_many

        texts = parse_many(self.kernel, n_latent) if self.kernel_per_class else [parse(self.kernel)]
        probe = np.zeros((1, len(variances)))
        filled = [kernel.fill(variances) for kernel in texts]
        for kernel in filled:
            kernel(probe, probe)  # raises where the kernel does not fit the columns
        return filled

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def given(cls, task: str | None = None, **named: Any) -> Self:
        """Return settings of which some are named; what is left out suits these, and the task.

        Raises
        ------
        SettingsError
            If a name is unknown, or the settings do not go together.
        """
        if task not in (None, "classification", "regression"):
            raise SettingsError(f"task must be classification or regression, got {quoted(task)}")
        settings = cls.from_json(cls._completed(task, named))
        if task is not None and (task == "regression") != settings.is_regression:
            likelihood = settings.likelihood or settings.wanted_likelihood.family.name
            raise SettingsError(f"likelihood={likelihood} is not for task={task}; use another")
        return settings

    @classmethod
    def _completed(cls, task: str | None, named: dict[str, Any]) -> dict[str, Any]:
        """Return named settings with others whose defaults would not go with them."""
        return named

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Restore what `to_json` gave; unknown names are refused."""
        known = declared(cls)
        unknown = [str(name) for name in stored if name not in known]
        if unknown:
            raise SettingsError(
                f"{cls.WHOSE} has no settings {', '.join(sorted(unknown))}; it knows "
                f"{', '.join(sorted(known))}"
            )
        return cls(**stored)


def redeclared(name: str, default: Any, **details: Any) -> Any:
    """Return the field of a setting of `Settings` with another default or other details."""
    former = Settings.__dataclass_fields__[name].metadata
    return field(default=default, metadata={**former, **details})
