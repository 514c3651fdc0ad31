"""Settings common to all runs, with their checks and their JSON form."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sparsegp.errors import SettingsError, quoted
from sparsegp.fields import Checked, declared, refuse_unknown, setting

if TYPE_CHECKING:
    from sparsegp.kernels import ColumnNames, Kernel
    from sparsegp.likelihoods.parse import LikelihoodSpec
    from sparsegp.types import Doubles

KERNEL = (
    "Covariance function, such as '10*rbf(5)' or '2*rbf + 0.1*linear'. Omitted length scales are "
    "computed from the data."
)

LEARNT: dict[str, Any] = {
    "likelihood": "gaussian(0.3)",
    "kernel": "1*rbf",
    "learn": "evidence",
    "hyperprior": "1/noise: gamma(20, 0.02)",
}
"""Settings of a regression if neither `learn` nor `likelihood` is given: kernel and noise are
learnt, since no fixed values suit all targets. The hyperprior keeps the noise variance of
noise-free data from vanishing, which double precision could not handle; it costs 0.0005 nats
divided by the noise variance of standardised targets, which is negligible for noisy ones."""

DEFAULT_PANEL, WIDEST_PANEL = 16, 64
AUTO = "auto"
"""Value that lets a search choose the `kernel`, and lets it try other rules of `scaling`."""


@dataclass(frozen=True)
class Settings(Checked):
    """Settings common to all runs; values are checked one by one, then for conflicts."""

    OWNER: ClassVar[str]
    """Owner of the settings, for the message about unknown names."""

    kernel: str | None = setting("10*rbf", KERNEL)
    kernel_per_class: bool = setting(
        False, "A separate kernel for every class; they may all be given, separated by semicolons."
    )
    hyperprior: str = setting(
        "",
        "Prior densities of the learnt parameters, such as 'v: lognormal(-1, 1); bias: "
        "normal(0, 25)'; none if empty.",
        applies="learn=evidence or hmc",
    )
    scaling: str = setting(
        "auto",
        "Scaling of the inputs: auto, standard, range, quantile or none.",
        choices="sparsegp.data:SCALINGS",
    )
    seed: int = setting(0, "Random seed.", least=0)

    if TYPE_CHECKING:  # declared by each kind of run
        likelihood: str = ""
        learn: str = "none"

    def __post_init__(self) -> None:
        from sparsegp.kernels import parse, split

        super().__post_init__()
        kernel = self.first_kernel
        for text in split(kernel) if self.kernel_per_class else [kernel]:
            parse(text)
        for message in self._conflicts():
            raise SettingsError(message)

    def _conflicts(self) -> Iterator[str]:
        """Yield a message, with a remedy, for each conflict between settings."""
        raise NotImplementedError

    @property
    def likelihood_spec(self) -> "LikelihoodSpec":
        """The likelihood, parsed."""
        from sparsegp.likelihoods.parse import parse

        return parse(self.likelihood)

    @property
    def is_regression(self) -> bool:
        """Whether the likelihood is for regression."""
        return self.likelihood_spec.family.numeric

    @property
    def first_kernel(self) -> str:
        """Text of the kernel, or of the one that a search starts from."""
        if self.kernel is None:
            raise SettingsError("`kernel` must be one such as '10*rbf', got None; leave it out")
        return self.kernel

    def kernels(self, n_latent: int, variances: "Doubles") -> "list[Kernel]":
        """Return the kernels with all length scales filled in.

        Parameters
        ----------
        n_latent : int
            Number of latent values per row.
        variances : Doubles (p,)
            Variances of the scaled input columns.
        """
        import numpy as np

        from sparsegp.kernels import parse, parse_many

        text = self.first_kernel
        texts = parse_many(text, n_latent) if self.kernel_per_class else [parse(text)]
        probe = np.zeros((1, len(variances)))
        filled = [kernel.fill(variances) for kernel in texts]
        for kernel in filled:
            kernel(probe, probe)  # raises if the kernel does not fit the columns
        return filled

    def for_columns(self, columns: "ColumnNames") -> Self:
        """Return the settings for a table, with named length scales in the order of its columns."""
        from sparsegp.kernels import parse, split

        if self.kernel is None or "{" not in self.kernel:
            return self
        each = split(self.kernel)
        return replace(self, kernel="; ".join(str(parse(text, columns)) for text in each))

    @property
    def supports_weights(self) -> bool:
        """Whether the rows may have weights."""
        return False

    def require_used(self, names: Iterable[str]) -> None:
        """Raise a `SettingsError` if one of the named settings has no effect with the others."""
        known = declared(type(self))
        for each in (known[name] for name in names if name in known):
            needed, _, values = each.applies.partition("=")
            found = getattr(self, needed) if needed else ""
            if found is None or (values and found not in values.split(" or ")):
                raise SettingsError(
                    f"`{each.name}` needs {each.applies}; give that, or leave it out"
                )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def given(cls, task: str | None = None, **named: Any) -> Self:
        """Create settings from keyword arguments; defaults depend on these and the task.

        Raises
        ------
        SettingsError
            If a name is unknown, or the settings conflict.
        """
        if task is not None and str(task) not in {"classification", "regression"}:
            raise SettingsError(f"task must be classification or regression, got {quoted(task)}")
        known = declared(cls)
        refuse_unknown(named, known, cls.OWNER)
        named = {name: known[name].checked(value) for name, value in named.items()}
        settings = cls(**cls._completed(task, named))
        if task is not None and (task == "regression") != settings.is_regression:
            likelihood = settings.likelihood or settings.likelihood_spec.family.name
            raise SettingsError(f"likelihood={likelihood} is not for task={task}; use another")
        return settings

    @classmethod
    def _completed(cls, task: str | None, named: dict[str, Any]) -> dict[str, Any]:
        """Add settings whose usual defaults would conflict with the named ones."""
        return named
