"""A sparse variational Gaussian process of GPyTorch, as a contestant."""

from typing import Any

from sparsegp.errors import SettingsError
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import CONTESTANTS
from sparsegp.reproduce.contestants.rival import Rival
from sparsegp.reproduce.toml import Section


class SVGP(Rival):
    """A sparse variational Gaussian process of GPyTorch, with as many inducing points as rows."""

    title = "SVGP (GPyTorch)"
    takes_all_rows = False

    def read(self, section: Section) -> dict[str, Any]:
        """Take how its bound is ascended, and `full` for a posterior with full covariances."""
        options: dict[str, Any] = {
            "epochs": section.take("epochs", int),
            "batch": section.take("batch", int, 512),
            "rate": section.take("rate", float, 0.02),
        }
        for key, value in options.items():
            if not value > 0:
                raise section.error(key, f"must be positive, got {value}")
        return {**options, "full": section.take("full", bool, False)}

    def build(self, cell: Cell, gamma: float) -> Any:
        """Return the estimator.

        Raises
        ------
        SettingsError
            If GPyTorch is not installed.
        """
        del gamma
        try:
            from sparsegp.reproduce.variational import VariationalClassifier  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                f"the model svgp needs gpytorch ({error}); install it by "
                'pip install "sparsegp[rivals]"'
            ) from None
        names = ("epochs", "batch", "rate", "full")
        options = {name: cell.options[name] for name in names}
        return VariationalClassifier(cell.n_active, **options, seed=cell.settings.seed)

    def words(self, cell: Cell, gamma: float) -> list[str]:
        """Return how it is fitted."""
        del gamma
        options = cell.options
        return [
            f"d={cell.n_active}",
            f"{'full' if options['full'] else 'diagonal'} covariances",
            f"{options['epochs']} epochs of batches of {options['batch']}",
            f"rate {options['rate']:g}",
        ]

    def details(self, estimator: Any) -> dict[str, Any]:
        """Return the kernel found, and the bound."""
        return {
            "iterations": estimator.n_iter_,
            "kernel": estimator.kernel_,
            "bound": estimator.bound_,
        }


CONTESTANTS.register("svgp")(SVGP())
