"""Conflicts between settings of a sparse run: messages that say what to do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sparsegp.settings.base import AUTO

if TYPE_CHECKING:
    from sparsegp.settings.sparse import TrainSettings


def conflicts(settings: "TrainSettings") -> Iterator[str]:
    """Yield a message for each conflict.

    Raises
    ------
    SettingsError
        If the likelihood cannot be parsed.
    """
    _ = settings.likelihood_spec  # raises if it cannot be parsed
    if settings.kernel == AUTO:
        yield from with_a_search(settings)
    yield from _of_rows_and_columns(settings)
    if settings.sites != "moments":
        yield from _of_variational(settings)
    elif settings.posterior != "adf" and not (
        settings.posterior == "all" and settings.is_regression
    ):
        yield (
            f"posterior={settings.posterior} is for sites=variational; with sites=moments use adf"
        )
    yield from _of_criterion(settings)


def with_a_search(settings: "TrainSettings") -> Iterator[str]:
    """Yield a message for each conflict with a search for the kernel."""
    usual = type(settings)
    if settings.sites != usual.sites and not settings.learns_noise:
        yield (
            f"a kernel is chosen by held-out rows for likelihood={usual.likelihood}, and for "
            "probit, logistic and gaussian with posterior=all; got likelihood="
            f"{settings.likelihood} with posterior={settings.posterior} and sites={settings.sites}:"
            " change these, or give learn=evidence or a `kernel`"
        )
    if settings.kernel_per_class:
        yield "one kernel is chosen by held-out rows for all classes; leave kernel_per_class out"
    if settings.metric != "none":
        yield (
            f"a search for the kernel chooses the metric too, got metric={settings.metric}; leave "
            "it out, or train with a `kernel`"
        )
    if settings.stub_entries is not None:
        yield (
            "a search for the kernel does not support a bound on stub entries; leave stub_entries "
            "out, and train with the kernel that was chosen"
        )


def _of_rows_and_columns(settings: "TrainSettings") -> Iterator[str]:
    from sparsegp.data.weights import BALANCED, class_weights
    from sparsegp.kernels import parse, split
    from sparsegp.learning.metric import Metric, is_per_column

    kernels = map(parse, split(settings.first_kernel))
    if Metric.of(settings.metric) is not None and any(map(is_per_column, kernels)):
        yield (
            f"metric={settings.metric} is for kernels of the distance, such as rbf and matern52, "
            f"got kernel={settings.kernel}; leave one of the two out"
        )
    found, wanted = settings.candidates, settings.n_active
    if found is not None and not settings.draws_candidates:
        yield (
            f"`candidates` is for posterior=all and learn=none, got posterior={settings.posterior} "
            f"and learn={settings.learn}; leave it out"
        )
    if found is not None and wanted is not None and found < wanted:
        yield f"`candidates` must be at least n_active={wanted}, got {found}; raise it"
    if settings.class_weight not in {"", BALANCED}:
        class_weights(settings.class_weight)  # raises
    for name in ("class_weight", "active_per_class"):
        if getattr(settings, name) and settings.is_regression:
            yield f"{name} is for classes, and a regression has none; leave it out"
    if settings.class_weight and not settings.supports_weights:
        yield "class_weight is for learn=none, got learn=evidence; leave one out"


def _of_variational(settings: "TrainSettings") -> Iterator[str]:
    likelihood = settings.likelihood_spec
    if not likelihood.family.curvature_bound:
        yield (
            "sites=variational need a bound on the curvature, which likelihood="
            f"{settings.likelihood} does not have; use sites=moments"
        )
    if likelihood.given is not None:
        yield (
            f"parameters of likelihoods are for sites=moments, got {settings.likelihood} with "
            "sites=variational; give its name alone"
        )
    if settings.active_per_class or settings.learn == "evidence":
        name = "active_per_class" if settings.active_per_class else "learn=evidence"
        yield (
            f"{name} needs sites=moments, got sites=variational; give sites=moments too, or "
            "another likelihood, such as probit"
        )


def _of_criterion(settings: "TrainSettings") -> Iterator[str]:
    from sparsegp.ivm.criteria import CRITERIA, Change

    single = [name for name in CRITERIA if issubclass(CRITERIA[name], Change)]
    if settings.active_per_class and settings.criterion_used not in single:
        yield (
            "active_per_class needs a criterion that scores single classes, got "
            f"{settings.criterion_used}; use one of {', '.join(single)}"
        )
    if settings.stub_entries is not None and settings.posterior == "all":
        yield (
            "stub_entries bounds the stubs of the candidates, but posterior=all needs those of all "
            "rows; give posterior=adf or active, or leave the bound out"
        )
