"""Length scales by the names of columns, for other rows of a table, which may be encoded otherwise.

In the text of a kernel a mapping takes the place of the length scales: ``ard({'age': 2.0})``.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sparsegp.errors import SettingsError, quoted
from sparsegp.kernels.base import Kernel
from sparsegp.kernels.columns import ByColumn
from sparsegp.lists import join_first


class Columns(NamedTuple):
    """Names of the encoded columns of a table.

    Attributes
    ----------
    names : tuple of str
        Of the encoded columns, (p,).
    scales : tuple of str
        Of their length scales, (p,); the levels of a category share one.
    inputs : tuple of str
        Of all columns before they are encoded.
    """

    names: tuple[str, ...]
    scales: tuple[str, ...]
    inputs: tuple[str, ...]

    def text(self, kernel: Kernel) -> str:
        """Return the text of a kernel with per-column length scales by name."""
        text, p = str(kernel), len(self.names)
        for leaf in kernel.leaves:
            if isinstance(leaf, ByColumn) and leaf.has_ard(p) and leaf.length_scales:
                each = [*map(tuple, np.reshape(leaf.length_scales, (p, -1)).tolist())]
                shared = dict(zip(self.scales, each, strict=True))
                is_shared = [shared[name] for name in self.scales] == each
                named = shared if is_shared else dict(zip(self.names, each, strict=True))
                own, values = str(leaf), ", ".join(map(repr, leaf.length_scales))
                text = text.replace(own, f"{own.removesuffix(values + ')')}{_written(named)})")
        return text

    def in_order(self, given: Mapping[str, Any]) -> list[float]:
        """Return length scales, given by name, in the order of the columns.

        Columns without one get the median of all, such as indicators of gaps in other rows.

        Raises
        ------
        SettingsError
            If a name is not that of a column, or of a part of one.
        """
        parts = tuple(f"{name}{end}" for name in self.inputs for end in ("=", ":", " missing"))
        known = {*self.inputs}
        if unknown := [name for name in given if name not in known and not name.startswith(parts)]:
            raise SettingsError(
                f"a kernel must have length scales of columns of the table, got {unknown[0]!r}; "
                f"the columns are {join_first(self.inputs, 20)}"
            )
        usual = np.median([*given.values()], axis=0)
        both = zip(self.names, self.scales, strict=True)
        each = [np.ravel(given.get(name, given.get(scale, usual))) for name, scale in both]
        return [float(value) for values in each for value in values]


def length_scales(given: Mapping[Any, Any], columns: Columns | None) -> list[Any]:
    """Return the length scales of a text by column name; in their own order without columns."""
    sizes = {np.shape(value) for value in given.values()}
    if len(sizes) != 1 or not all(isinstance(name, str) for name in given):
        raise SettingsError(
            "length scales by column must be a number or four numbers for each name, got "
            f"{quoted(given)}"
        )
    if columns is None:
        return [each for value in given.values() for each in np.ravel(value).tolist()]
    return columns.in_order(given)


def _written(named: Mapping[str, tuple[float, ...]]) -> str:
    """Return a mapping as text, without signs that mean something else in texts of kernels."""
    pairs = (f"{name!r}: {value[0] if len(value) == 1 else value}" for name, value in named.items())
    mapping = f"{{{', '.join(pairs)}}}"
    return re.sub("[#;]|(?<= ) ", lambda sign: f"\\x{ord(sign[0]):02x}", mapping)
