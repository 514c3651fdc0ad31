"""Settings of a run: everything that its result depends on, except the data."""

from typing import Any

from sparsegp.fields import Setting as Setting
from sparsegp.fields import declared as declared
from sparsegp.settings.base import AUTO as AUTO
from sparsegp.settings.base import Settings as Settings
from sparsegp.settings.dense import DenseSettings as DenseSettings
from sparsegp.settings.sparse import TrainSettings as TrainSettings

SPARSE = "ivm"
"""The method of `TrainSettings`, and the default; all others belong to `DenseSettings`."""


def settings_given(**named: Any) -> TrainSettings | DenseSettings:
    """Create the settings of a method from keyword arguments; `method` is "ivm" by default.

    Raises
    ------
    SettingsError
        If a name is unknown to the method, or the settings conflict.
    """
    method = Setting("method", str, SPARSE, optional=False).checked(named.get("method", SPARSE))
    if method == SPARSE:
        return TrainSettings.given(**{k: v for k, v in named.items() if k != "method"})
    return DenseSettings.given(**named)
