"""Settings of a dense method: all rows at once, in O(n^3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparsegp.fields import documented, setting
from sparsegp.settings.base import LEARNT, Settings

if TYPE_CHECKING:
    from sparsegp.dense import Method
    from sparsegp.likelihoods.parse import LikelihoodSpec


@documented
@dataclass(frozen=True)
class DenseSettings(Settings):
    """Settings of a run that uses all rows."""

    method: str = setting(
        "laplace",
        "A method that uses all rows (a few thousand at most), in O(n^3): laplace, ep, softmax_ep, "
        "variational, gibbs, online, exact (regression). Options may follow, such as "
        "'ep(damping=0.5)'.",
    )
    likelihood: str = setting(
        "",
        "One of the method's likelihoods; if empty, the first that suits the number of classes. "
        "'gaussian(0.3)' sets the noise variance, for labels of unit variance.",
    )
    learn: str = setting(
        "none",
        "How kernels are learnt: none; evidence: by maximising the marginal likelihood times the "
        "hyperprior; hmc: predictions are averaged over samples by hybrid Monte Carlo.",
        choices=("none", "evidence", "hmc"),
    )
    steps: int = setting(
        100,
        "Maximum number of line searches for evidence, or draws of each hmc chain.",
        least=1,
        applies="learn=evidence or hmc",
    )
    averaged: bool = setting(
        True,
        "Average probabilities over the latent values instead of evaluating them at their mean.",
        flag="--map",
        negated_help="Evaluate probabilities at the mean of the latent values instead of "
        "averaging.",
    )

    OWNER: ClassVar[str] = "a dense method, which takes all rows,"

    def _conflicts(self) -> Iterator[str]:
        from sparsegp.dense import METHODS
        from sparsegp.dense.sampling import MIN_DRAWS

        method, likelihood = self.build_method(), self.likelihood_spec
        if likelihood.given is not None and not likelihood.family.numeric:
            yield (
                "in dense methods numbers of a likelihood are for gaussian, got "
                f"{self.likelihood}; leave them out"
            )
        if self.learn != "none" and not method.has_evidence:
            having = [name for name in METHODS if METHODS[name]().has_evidence]
            yield (
                f"learn={self.learn} needs the gradient of a marginal likelihood, which "
                f"method={method.name} does not have; use one of {', '.join(having)}"
            )
        if self.learn != "none" and method.learns_kernels:
            yield (
                f"method={self.method} learns length scales itself; leave out learn={self.learn} "
                f"or the options of {method.name}"
            )
        if self.learn == "hmc" and self.steps < MIN_DRAWS:
            yield f"`steps` must be at least {MIN_DRAWS} with learn=hmc, got {self.steps}"

    def build_method(self) -> "Method":
        """Return the method with its options."""
        from sparsegp.dense import parse_method

        return parse_method(self.method)

    @classmethod
    def _completed(cls, task: str | None, named: dict[str, Any]) -> dict[str, Any]:
        from sparsegp.dense import parse_method

        if task != "regression" or named.keys() & {"learn", "likelihood"}:
            return named
        likelihoods = parse_method(named.get("method", cls.method)).likelihoods
        return {**(LEARNT if "gaussian" in likelihoods else {}), **named}

    @property
    def likelihood_spec(self) -> "LikelihoodSpec":
        """The likelihood, parsed; if none is given, the first one of the method."""
        from sparsegp.likelihoods.parse import parse

        return parse(self.likelihood or self.build_method().likelihoods[0])

    def sizes(self, n_classes: int) -> tuple[int, int]:
        """Return the number of kernels, and of (n, n) matrices held at a time.

        Raises
        ------
        SettingsError
            If the method does not support this number of classes.
        """
        from sparsegp.dense import likelihood_for

        method = self.build_method()
        likelihood = likelihood_for(type(method), n_classes, self.likelihood)
        n_latent = likelihood.n_latent(n_classes)
        n_kernels = n_latent if self.kernel_per_class else 1
        return n_kernels, method.matrices(n_kernels, n_latent, likelihood.name)

    def rows_to_include(self, n: int) -> int:
        """Return the number of rows that the model holds: all."""
        return n
