"""Sparse Gaussian process classification and regression by the informative vector machine."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparsegp.data.virtual import same_settings as same_settings
    from sparsegp.data.virtual import virtual_rows as virtual_rows
    from sparsegp.data.weights import soft_labels as soft_labels
    from sparsegp.estimator import DenseGPClassifier as DenseGPClassifier
    from sparsegp.estimator import DenseGPRegressor as DenseGPRegressor
    from sparsegp.estimator import SparseGPClassifier as SparseGPClassifier
    from sparsegp.estimator import SparseGPRegressor as SparseGPRegressor
    from sparsegp.fit import Training as Training
    from sparsegp.fit import train as train
    from sparsegp.fit.tune import tune as tune
    from sparsegp.fit.update import update as update
    from sparsegp.model import Model as Model
    from sparsegp.model import load as load
    from sparsegp.report.scores import evaluate as evaluate

_HOMES = {
    "DenseGPClassifier": "sparsegp.estimator",
    "DenseGPRegressor": "sparsegp.estimator",
    "Model": "sparsegp.model",
    "SparseGPClassifier": "sparsegp.estimator",
    "SparseGPRegressor": "sparsegp.estimator",
    "evaluate": "sparsegp.report.scores",
    "load": "sparsegp.model",
    "soft_labels": "sparsegp.data.weights",
    "same_settings": "sparsegp.data.virtual",
    "Training": "sparsegp.fit",
    "train": "sparsegp.fit",
    "tune": "sparsegp.fit.tune",
    "update": "sparsegp.fit.update",
    "virtual_rows": "sparsegp.data.virtual",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - strings, as the keys are


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `sparsegp --help` is fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sparsegp' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_HOMES[name]), name)
