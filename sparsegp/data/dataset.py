"""Open a data set by name: a member of the catalog, or a file in any format that has a reader."""

from pathlib import Path

from sparsegp.data.catalog import CATALOG
from sparsegp.data.readers import (
    READERS,
    LabelColumn,
    Reader,
    Request,
    find_reader,
    find_url_reader,
)
from sparsegp.data.storage import is_url, plain, reading, require_protocol
from sparsegp.data.table import Dataset, check_pair
from sparsegp.errors import DataError


def open_dataset(
    source: str | Path, *, label_column: LabelColumn = None, n_features: int | None = None
) -> Dataset:
    """Open a data set; rows are read when they are needed, where the format allows it.

    Parameters
    ----------
    source : str or path
        A name of the catalog, else a file, a pair of files "X.npy,y.npy", or a zarr directory. The
        format is told by the suffix, else by the first bytes. .zarr, .npy and .parquet may be in a
        store: s3://..., gs://..., or any other URL that fsspec knows.
    label_column : str or int, optional
        Which column of a text or parquet file holds the labels: a name, or a number counted from
        0 (from the end when negative). The last one by default.
    n_features : int, optional
        The columns that a model takes. A text or parquet file with just as many columns is then
        read without labels.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If there is no such data set, or it cannot be read or learnt from.
    """
    request = Request(label_column, n_features)
    if str(source) in CATALOG:
        dataset = CATALOG[str(source)]()
        _refuse_label_column(str(source), request)
    else:
        name, reader = _resolve(str(source))
        if not reader.columns:
            _refuse_label_column(name, request)
        dataset = reader.read(name, request)
    _check_features(dataset, n_features)
    return check_pair(dataset)


def _resolve(source: str) -> tuple[str, Reader]:
    """Return the source as its reader takes it, and the reader."""
    if is_url(source):
        source = ",".join(plain(part.strip()) for part in source.split(","))
    if is_url(source):
        require_protocol(source.split(",", maxsplit=1)[0])
        return source, find_url_reader(source)
    with reading(source):
        path = Path(source).expanduser()
        if path.is_dir() or path.is_file():
            return str(path), find_reader(path)
        if path.exists():
            raise DataError(f"{source} is neither a file nor a directory")
    if "," in source:
        return source, READERS[".npy"]
    names = ", ".join(CATALOG)
    raise DataError(f"no such file {source!r}; DATA is a file or one of: {names}")


def _refuse_label_column(source: str, request: Request) -> None:
    if request.label_column is not None:
        raise DataError(
            f"{source} stores its labels apart from its columns; leave the label column "
            f"{request.label_column!r} out"
        )


def _check_features(dataset: Dataset, n_features: int | None) -> None:
    found = dataset.train.X.shape[1]
    if n_features is not None and found != n_features:
        raise DataError(f"the model takes {n_features} columns; {dataset.train.source} has {found}")
