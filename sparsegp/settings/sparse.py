"""Settings of a sparse run, by the informative vector machine."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sparsegp.errors import SettingsError
from sparsegp.fields import documented, setting
from sparsegp.settings.base import AUTO, DEFAULT_PANEL, KERNEL, LEARNT, WIDEST_PANEL, Settings
from sparsegp.settings.conflicts import conflicts, with_a_search

if TYPE_CHECKING:
    import numpy as np

    from sparsegp.ivm.greedy import Order
    from sparsegp.ivm.shrink import Bound
    from sparsegp.likelihoods import Likelihood

DEFAULT_KERNEL = "50*rbf + 50*matern52"
USUAL_KERNEL = AUTO
"""Kernel if none is given and a search is possible; otherwise it is `DEFAULT_KERNEL`."""
KERNEL_OF_NUMBERS = "30*rbf"
"""Default kernel of a regression, whose noise variance and prior variance factor are learnt."""
DEFAULT_N_ACTIVE = 1000
DEFAULT_CRITERIA = {"variational": "predictive", "moments": "information"}
"""Default criteria by sites."""
CANDIDATES = 20
"""Candidates per active row; from more of them, the most extreme rows would be selected, which
represent the others less well."""
MIN_VALIDATION, ENOUGH_VALIDATION, MAX_VALIDATION = 30, 1500, 4000
"""Numbers of validation rows: the minimum, what is enough for a small table, and the maximum."""
FEW_TO_VALIDATE, MOST_TO_CROSS = 2000, 8000
"""With fewer rows than the first, the posterior `all` uses cross-validation, as a few hundred
validation rows would choose the prior variance factor by chance. So would few rows of rare classes:
up to the second number of rows, twice those outside the largest class count, if that is less."""

OF_THE_PAPER = "multinomial_probit"
"""The likelihood that `TrainSettings.given` chooses where softmax has no advantage: for the methods
of Girolami & Rogers, and for those that need moments for many classes."""
GENERAL = {"sites": "moments", "posterior": "adf", "kernel": "10*rbf"}
"""Settings that `TrainSettings.given` chooses for other likelihoods, and for sites=moments."""
BY_EVIDENCE = {**LEARNT, "posterior": "adf", "major_steps": 5}
"""Settings of a regression that learns by the evidence, or has too few rows for a search."""
SEARCHED = {"likelihood": "gaussian", "posterior": "all", "kernel": None, "precision": "float64"}
"""Settings of a regression if neither another posterior nor one of `OF_EVIDENCE` is given."""
OF_EVIDENCE = {"learn", "likelihood", "hyperprior", "strategy", "major_steps", "minor_steps"}
OF_EVIDENCE |= {"stub_entries", "kernel_per_class"}


@documented
@dataclass(frozen=True)
class TrainSettings(Settings):
    """Settings of a sparse run, by the informative vector machine."""

    n_active: int | None = setting(
        None,
        "Number of active rows (inducing points); with active_per_class, of (row, class) pairs.",
        least=1,
        word=AUTO,
        unset="auto: chosen with the kernel, else all but validation rows, at most "
        f"{DEFAULT_N_ACTIVE}",
    )
    kernel: str | None = setting(
        None,
        KERNEL + " With auto, kernel, scaling and number of active rows are chosen on held-out "
        "training rows, unless given.",
        unset=f"auto where possible, else '{DEFAULT_KERNEL}'",
    )
    metric: str = setting(
        "none",
        "Metric of isotropic kernels such as rbf: none, or full: a matrix that mixes all columns, "
        "learnt from the gradients of small fits, such as 'full(rounds=3, power=0.5)'.",
    )
    criterion: str | None = setting(
        None,
        "Selects the next active row. predictive: the one with the least probable label; "
        "information: the one that changes the posterior most; entropy: the one that lowers its "
        "entropy most; random.",
        choices="sparsegp.ivm.criteria:CRITERIA",
        unset="predictive, with sites=moments information; or random, if a search for the kernel "
        "finds that better",
    )
    candidates: int | None = setting(
        None,
        "Number of rows, drawn at random, that may become active; classes with less than half of "
        "an equal share of them get more.",
        least=1,
        applies="posterior=all",
        unset=f"{CANDIDATES} for each active row",
    )
    posterior: str = setting(
        "all",
        "Rows on which the posterior is conditioned. all: every training row; active: the active "
        "rows, iterated to convergence; adf: the active rows, each approximated once, when it is "
        "included. Of classes, all needs sites=variational, and active always does.",
        choices="sparsegp.posterior:POSTERIORS",
    )
    likelihood: str = setting(
        "softmax",
        "softmax, probit or logistic (two classes), multinomial_probit, or, with sites=moments, "
        "ordered_probit or gaussian (regression). Parameters may follow, such as 'probit(-1.5)'.",
        unset="softmax for posterior=all with one kernel, else multinomial_probit",
    )
    sites: str = setting(
        "variational",
        "Gaussian approximation (site) of the likelihood of an active row: variational, from a "
        "bound on its curvature, or moments (moment matching).",
        choices="sparsegp.likelihoods.sites:RULES",
    )
    active_per_class: bool = setting(
        False,
        "A separate active set for every class, if the likelihood has one latent value per class.",
        applies="sites=moments",
    )
    epsilon: float = setting(
        1e-8, "Smallest site precision of an included row.", above=0.0, applies="sites=moments"
    )
    learn: str = setting(
        "none",
        "How the parameters of kernel and likelihood are learnt: none; evidence: by maximising the "
        "marginal likelihood, with sites=moments. Dense methods also have hmc: sampled kernels.",
        choices=("none", "evidence"),
    )
    major_steps: int = setting(
        15, "Number of times that the active set is reselected.", least=1, applies="learn=evidence"
    )
    minor_steps: int = setting(
        8, "Maximum number of line searches between selections.", least=1, applies="learn=evidence"
    )
    strategy: str = setting(
        "constant",
        "How sites are updated between selections: constant, hybrid or exact.",
        choices="sparsegp.learning.optimise:STRATEGIES",
        applies="learn=evidence",
    )
    class_weight: str = setting(
        "",
        "Weights of the log likelihoods of each class: balanced, which gives all classes the same "
        "total weight, or labels with weights, such as a=2,b=0.5.",
        listed=True,
    )
    stub_entries: int | None = setting(
        None,
        "Upper bound on candidates times active rows times kernels: candidates are dropped as rows "
        "are included. For the posteriors adf and active.",
        least=1,
        unset="no bound",
    )
    shrink_every: int = setting(
        100, "Inclusions between two reductions of the candidates.", least=1, applies="stub_entries"
    )
    keep_best: float = setting(
        0.5,
        "Fraction of the kept candidates that have the best scores; the rest are drawn at random.",
        least=0,
        most=1,
        applies="stub_entries",
    )
    precision: str = setting(
        "float32",
        "Floating-point precision of the large arrays: float32 or float64.",
        choices=("float32", "float64"),
    )
    panel: int | None = setting(
        None,
        "Rows included per scoring round; 1 is the order of the paper.",
        least=1,
        unset=f"for posterior=all {DEFAULT_PANEL}, and {DEFAULT_PANEL} more for every 2000 active "
        f"rows up to {WIDEST_PANEL}; else 1",
    )
    lookahead: int = setting(
        56,
        "Inclusions computed in advance with panel=1; affects speed, and the result by rounding "
        "only.",
        least=1,
    )
    lazy: bool = setting(
        True,
        "Skip scores that cannot affect the selection; affects speed, not the result.",
        flag="--no-lazy",
        negated_help="Evaluate all scores in every round; affects speed, not the result.",
    )
    tolerance: float = setting(
        1e-4,
        "Convergence tolerance: smallest gain per round, in nats per row, to continue.",
        above=0.0,
        applies="posterior=all",
    )
    calibration: str = setting(
        "learned",
        "Calibration of the probabilities with posterior=all or sites=moments: learned on a "
        "validation set (for posterior=all, by cross-validation with fewer than 2000 rows, or if "
        "other classes are rare), or none.",
        choices=("learned", "none"),
    )
    n_nodes: int = setting(
        12,
        "Quadrature nodes of multinomial_probit; more than a few dozen make no difference.",
        least=2,
        most=300,  # from 371 on, Gauss-Hermite weights do not fit double precision
    )
    report_every: int = setting(
        100,
        "Inclusions between two records of the selection history, which fall on ends of panels.",
        least=1,
    )

    OWNER: ClassVar[str] = "method=ivm"

    _conflicts = conflicts

    @property
    def first_kernel(self) -> str:
        """Text of the kernel; the default one if none is given, or it is to be chosen."""
        if self.kernel not in {None, AUTO}:
            return super().first_kernel
        return KERNEL_OF_NUMBERS if self.is_regression else DEFAULT_KERNEL

    @property
    def untunable(self) -> str:
        """Message that says why no search for the kernel is possible; empty if one is."""
        return next(with_a_search(self), "")

    @property
    def supports_weights(self) -> bool:
        """Whether the rows may have weights."""
        return self.learn == "none" or self.is_regression

    def bound(self, n: int, n_active: int, n_kernels: int) -> "Bound | None":
        """Return the bound on stub entries for n training rows, None if it has no effect.

        Raises
        ------
        SettingsError
            If it is too small for the number of active rows.
        """
        from sparsegp.ivm.shrink import Bound

        if self.stub_entries is None:
            return None
        bound = Bound(self.stub_entries, self.shrink_every, self.keep_best)
        columns = 1 if self.active_per_class else n_kernels  # per inclusion
        return bound.for_run(n - self.n_validation(n), n_active, columns)

    def start_likelihood(self, n_classes: int) -> "Likelihood":
        """Return the likelihood from which learning starts."""
        return self.likelihood_spec.start(n_classes, self.n_nodes)

    @property
    def order(self) -> "Order":
        """The order of inclusion, in batches that do not exceed the number of active rows."""
        from sparsegp.ivm.greedy import Order

        panel, wanted = self.panel, self.n_active or DEFAULT_N_ACTIVE
        if panel is None:
            wide = min(DEFAULT_PANEL * (1 + wanted // 2000), WIDEST_PANEL)
            panel = wide if self.posterior == "all" else 1
        return Order(min(self.lookahead, wanted), min(panel, wanted))

    @property
    def keeps_validation_rows(self) -> bool:
        """Whether some training rows are first held out for validation."""
        if self.calibration == "none" or self.is_regression:
            return False
        return self.posterior == "all" or self.sites == "moments"

    @property
    def learns_noise(self) -> bool:
        """Whether a regression chooses noise and prior variance by leave-one-out predictions."""
        wanted = self.is_regression and self.posterior == "all" and self.learn == "none"
        return wanted and self.likelihood_spec.given is None

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The working precision."""
        import numpy as np

        return np.dtype(self.precision)

    def n_validation(self, n: int, keeps_scale: bool = False, n_largest: int = 0) -> int:
        """Return the number of validation rows among n training rows, n_largest of one class.

        A tenth, or for the posterior `all` a fifth of the rows that will not become active, if that
        is more (up to `ENOUGH_VALIDATION`). If it keeps its prior variance factor (`keeps_scale`),
        as in an update without the old rows, as few suffice as for other posteriors.
        """
        of_all = self.posterior == "all"
        telling = min(n, 2 * (n - n_largest)) if n <= MOST_TO_CROSS else n
        crossed = telling < FEW_TO_VALIDATE and of_all and not keeps_scale
        few = crossed or n // 10 < MIN_VALIDATION
        if few or not self.keeps_validation_rows:
            return 0
        wanted = DEFAULT_N_ACTIVE if self.n_active is None else self.n_active
        fifth = min((n - wanted) // 5, ENOUGH_VALIDATION) if of_all else 0
        return min(max(n // 10, fifth), MAX_VALIDATION)

    def rows_to_include(self, n: int) -> int:
        """Return the number of active rows for n training rows.

        Raises
        ------
        SettingsError
            If there are fewer rows than wanted.
        """
        validation = self.n_validation(n)
        if self.n_active is None:
            return min(DEFAULT_N_ACTIVE, n - validation, self.candidates or n)
        if self.n_active > n - validation and not self.active_per_class:
            less = f" less {validation} kept for validation" if validation else ""
            raise SettingsError(
                f"n_active={self.n_active} exceeds the {n} training rows{less}; lower n_active"
            )
        return self.n_active

    @property
    def criterion_used(self) -> str:
        """Name of the criterion; the default one if none is given or chosen."""
        return self.criterion or DEFAULT_CRITERIA[self.sites]

    @property
    def draws_candidates(self) -> bool:
        """Whether only a sample of the rows may become active, rather than all."""
        return self.posterior == "all" and self.learn == "none"

    def n_candidates(self, n: int, n_active: int) -> int:
        """Return the number of candidates among n rows, before more of rare classes are added."""
        if not self.draws_candidates:
            return n
        return min(CANDIDATES * n_active if self.candidates is None else self.candidates, n)

    def for_rows(self, n: int) -> "TrainSettings":
        """Return the settings with n_active reduced to what n training rows allow."""
        if self.n_active is None or self.active_per_class:  # there are more pairs than rows
            return self
        return replace(self, n_active=min(self.n_active, n - self.n_validation(n)))

    @classmethod
    def given(cls, task: str | None = None, **named: Any) -> Self:
        """Create settings with a kernel; `class_weight` may be a mapping or a pandas series."""
        from sparsegp.data.weights import class_weight_text

        if "class_weight" in named:
            named["class_weight"] = class_weight_text(named["class_weight"])
        settings = super().given(task, **named)
        if settings.kernel is not None:
            return settings
        kernel = settings.first_kernel if settings.untunable else USUAL_KERNEL
        return replace(settings, kernel=kernel)

    @classmethod
    def _completed(cls, task: str | None, named: dict[str, Any]) -> dict[str, Any]:
        if task == "regression":
            named = cls._of_regression(named) | named
        if named.get("active_per_class"):
            named = {"sites": "moments", "kernel_per_class": True} | named
        moments, posterior = named.get("sites") == "moments", named.get("posterior")
        if moments or named.get("kernel_per_class") or posterior not in {None, cls.posterior}:
            named = {"likelihood": OF_THE_PAPER} | named
        usual = named.get("likelihood", cls.likelihood) in {cls.likelihood, OF_THE_PAPER}
        usual |= posterior not in {None, GENERAL["posterior"]}
        return named if usual and not moments else GENERAL | named

    @classmethod
    def _of_regression(cls, named: dict[str, Any]) -> dict[str, Any]:
        """Return the defaults of a regression for settings that are not named."""
        own = {name: SEARCHED.get(name, getattr(cls, name)) for name in OF_EVIDENCE}
        stated = any(named.get(name, default) != default for name, default in own.items())
        if not stated and named.get("posterior", "all") == "all":
            return {"sites": "moments"} | SEARCHED
        learns = "likelihood" not in named and named.get("learn", "evidence") == "evidence"
        known: dict[str, Any] = BY_EVIDENCE if learns else {"likelihood": "gaussian"}
        if learns or named.get("posterior") == "all":
            known = known | {"precision": "float64"}
        return {"sites": "moments"} | known
