"""A cell: the piece of a pipeline that is run and kept by itself."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparsegp.reproduce.sources import Source
from sparsegp.settings import TrainSettings


@dataclass(frozen=True)
class Cell:
    """A variant of a pipeline with one seed.

    Parameters
    ----------
    name : str
        Of its file.
    variant : str
    settings : TrainSettings
        With the seed of the cell.
    source : Source
    data_seed : int or None
        What the data are drawn with, where they are drawn.
    kind : str
        Name in `KINDS`.
    """

    name: str
    variant: str
    settings: TrainSettings
    source: Source
    data_seed: int | None
    kind: str

    @property
    def n_active(self) -> int:
        """Rows to include; a pipeline always names their number."""
        assert self.settings.n_active is not None  # checked when the pipeline was read
        return self.settings.n_active

    @property
    def fingerprint(self) -> str:
        """Digest of all in the pipeline that the result of this cell depends on.

        Settings at their defaults are left out: a setting that is new in a later version does not
        make finished cells run again.
        """
        plain = TrainSettings().to_json()
        stated = {k: v for k, v in self.settings.to_json().items() if v != plain[k]}
        return self._digest(stated)

    @property
    def run_name(self) -> str:
        """Name of the directory of its run, another one for other settings or data."""
        return f"{self.name}.{self._digest(self.settings.to_json())[:12]}"

    def _digest(self, settings: Mapping[str, Any]) -> str:
        data = self.source.to_json(self.data_seed)
        content = {"kind": self.kind, "settings": settings, "data": data}
        text = json.dumps(content, sort_keys=True).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()
