"""Parser of likelihood texts: ``probit``, or ``probit(-1.5)`` with values for its fields."""

from dataclasses import dataclass

from sparsegp.errors import SettingsError
from sparsegp.likelihoods.base import LIKELIHOODS, Likelihood
from sparsegp.texts import read


@dataclass(frozen=True)
class LikelihoodSpec:
    """A likelihood as described by a text."""

    family: type[Likelihood]
    given: Likelihood | None = None  # the likelihood itself, if the text has values

    def start(self, n_classes: int, n_nodes: int = 12) -> Likelihood:
        """Return the likelihood with its initial parameters; see `Likelihood.start`.

        Raises
        ------
        SettingsError
            If the family, or the values in the text, do not suit the number of classes.
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


def parse(text: str) -> LikelihoodSpec:
    """Read the text of a likelihood; the inverse of ``str``, apart from default values.

    A likelihood with all parameters at their defaults is written as its name alone, for which
    `LikelihoodSpec.given` is None.

    Raises
    ------
    UnknownNameError
        If there is no likelihood of that name.
    SettingsError
        If the text cannot be read, or its values do not fit the fields.
    """
    return LikelihoodSpec(*read(text, LIKELIHOODS, "'probit' or 'probit(-1.5)'"))
