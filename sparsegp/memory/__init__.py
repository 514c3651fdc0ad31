"""Estimates of memory and work of a run, and checks that the memory is available."""

from sparsegp.memory.estimates import Shape as Shape
from sparsegp.memory.estimates import estimate as estimate
from sparsegp.memory.estimates import held_bytes as held_bytes
from sparsegp.memory.estimates import rows_of_block as rows_of_block
from sparsegp.memory.estimates import shape_of as shape_of
from sparsegp.memory.estimates import tiles_per_unit as tiles_per_unit
from sparsegp.memory.room import check as check
from sparsegp.memory.room import fits as fits
from sparsegp.memory.room import remedies as remedies
from sparsegp.memory.room import room as room
