"""A cell: the piece of a pipeline that is run and kept by itself."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparsegp.errors import SettingsError
from sparsegp.reproduce.sources import Source
from sparsegp.settings import SPARSE, DenseSettings, TrainSettings


@dataclass(frozen=True)
class Cell:
    """A variant of a pipeline with one seed.

    Parameters
    ----------
    name : str
        Of its file.
    variant : str
    settings : TrainSettings or DenseSettings
        With the seed of the cell.
    source : Source
    data_seed : int or None
        What the data are drawn with, where they are drawn.
    kind : str
        Name in `KINDS`.
    data : str
        Name of the data in the pipeline, where there are several.
    options : mapping
        What the kind reads besides settings (`Kind.read_options`), plain JSON.
    used : collection of str or None
        Names of the settings that its result depends on, besides the seed; None for all.
    """

    name: str
    variant: str
    settings: TrainSettings | DenseSettings
    source: Source
    data_seed: int | None
    kind: str
    data: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    used: Collection[str] | None = None

    @property
    def n_active(self) -> int:
        """Rows to include; a pipeline always names their number. 0 for methods that take all."""
        if isinstance(self.settings, DenseSettings):
            return 0
        assert self.settings.n_active is not None  # checked when the pipeline was read
        return self.settings.n_active

    @property
    def sparse_settings(self) -> TrainSettings:
        """Settings of a kind of pipeline that is for the informative vector machine alone.

        Raises
        ------
        SettingsError
            If they are of another method.
        """
        if isinstance(self.settings, DenseSettings):
            raise SettingsError(
                f"kind={self.kind} is for method={SPARSE}, got method={self.settings.method} in "
                f"variant {self.variant}"
            )
        return self.settings

    @property
    def settings_used(self) -> dict[str, Any]:
        """Settings that its result depends on, as plain JSON."""
        every = self.settings.to_json()
        if self.used is None:
            return every
        return {name: every[name] for name in every if name in self.used or name == "seed"}

    @property
    def fingerprint(self) -> str:
        """Digest of all in the pipeline that the result of this cell depends on.

        Settings at their defaults are left out: a setting that is new in a later version does not
        make finished cells run again.
        """
        plain = type(self.settings)().to_json()
        stated = {k: v for k, v in self.settings_used.items() if v != plain[k]}
        return self._digest(stated)

    @property
    def run_name(self) -> str:
        """Name of the directory of its run, another one for other settings or data."""
        return f"{self.name}.{self._digest(self.settings_used)[:12]}"

    def _digest(self, settings: Mapping[str, Any]) -> str:
        data = self.source.to_json(self.data_seed)
        content = {"kind": self.kind, "settings": settings, "data": data}
        if self.options:
            content["options"] = self.options
        text = json.dumps(content, sort_keys=True).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()
