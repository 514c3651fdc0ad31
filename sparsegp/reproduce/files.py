"""Results on disk: written whole or not at all."""

import csv
import io
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparsegp.errors import StoreError
from sparsegp.reproduce.cell import Cell


def write_text(path: Path, text: str) -> None:
    """Write a file by way of a temporary one beside it.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows of a table; what a row lacks is left empty, other keys of it are left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


class CellStore:
    """Results of finished cells, ``cells/<cell>.json``, and runs of unfinished ones, ``runs/``.

    Parameters
    ----------
    out : Path
    """

    def __init__(self, out: Path) -> None:
        self.out, self.cells, self.runs = out, out / "cells", out / "runs"

    def load(self, cell: Cell, digests: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the result of a cell if it was made with these settings and data, else None.

        Parameters
        ----------
        cell : Cell
        digests : mapping
            Of the data files; empty if they are not there, and then they are not compared.
        """
        try:
            stored = json.loads(self._path(cell).read_text(encoding="utf-8"))
            fresh = stored["fingerprint"] == cell.fingerprint
            fresh &= not digests or stored["files"] == digests
            fresh &= _agree(stored["settings"], cell.settings_used)
            result: dict[str, Any] = stored["result"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if fresh else None

    def save(self, cell: Cell, digests: Mapping[str, str], result: Mapping[str, Any]) -> None:
        """Keep the result of a cell, and drop the run that it came from.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        content = {
            "cell": cell.name,
            "fingerprint": cell.fingerprint,
            "settings": cell.settings_used,
            "data": cell.source.to_json(cell.data_seed),
            "files": dict(digests),
            "result": dict(result),
        }
        write_text(self._path(cell), json.dumps(content, indent=1) + "\n")
        self.drop_runs(cell)

    def drop_runs(self, cell: Cell, keep: str = "") -> None:
        """Delete the run directories of a cell, but for the one named `keep`."""
        for run in self.runs.glob(f"{cell.name}.*"):
            if run.name != keep:
                shutil.rmtree(run, ignore_errors=True)
        with suppress(OSError):
            self.runs.rmdir()  # only when it is empty

    def _path(self, cell: Cell) -> Path:
        return self.cells / f"{cell.name}.json"


def _agree(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether no setting that both have differs, as it would if its default had changed."""
    return all(wanted[name] == value for name, value in stored.items() if name in wanted)
