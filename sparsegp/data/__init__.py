"""Data: tables of lazily read rows from files and arrays, their encoding, labels and scaling."""

from sparsegp.data.catalog import CATALOG as CATALOG
from sparsegp.data.catalog import toy as toy
from sparsegp.data.copies import effective_rows as effective_rows
from sparsegp.data.encoding import Encoding as Encoding
from sparsegp.data.labels import encode as encode
from sparsegp.data.labels import encode_with as encode_with
from sparsegp.data.labels import known_codes as known_codes
from sparsegp.data.readers import open_dataset as open_dataset
from sparsegp.data.scaling import SCALINGS as SCALINGS
from sparsegp.data.scaling import Scaling as Scaling
from sparsegp.data.scaling import scaling_for as scaling_for
from sparsegp.data.scaling import unscaled as unscaled
from sparsegp.data.summary import Summary as Summary
from sparsegp.data.summary import neighbour_correlation as neighbour_correlation
from sparsegp.data.summary import summarise as summarise
from sparsegp.data.table import Dataset as Dataset
from sparsegp.data.table import Table as Table
from sparsegp.data.table import as_table as as_table
from sparsegp.data.table import table_from_arrays as table_from_arrays
from sparsegp.data.table import table_from_frame as table_from_frame
from sparsegp.data.table import table_of as table_of
from sparsegp.data.targets import Numbers as Numbers
from sparsegp.data.targets import as_numbers as as_numbers
from sparsegp.data.targets import warn_of_numbers as warn_of_numbers
from sparsegp.data.weights import without_weights as without_weights
