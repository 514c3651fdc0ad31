"""Readers of file formats. A new format is one more file in this folder; it is found by itself."""

from importlib import import_module
from pkgutil import iter_modules

from sparsegp.data.readers.base import READERS as READERS
from sparsegp.data.readers.base import LabelColumn as LabelColumn
from sparsegp.data.readers.base import Reader as Reader
from sparsegp.data.readers.base import find_reader as find_reader

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
