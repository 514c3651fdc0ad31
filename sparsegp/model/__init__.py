"""Fitted models: sparse ones and dense ones behind one interface."""

from sparsegp.model.base import Model as Model
from sparsegp.model.base import load as load
from sparsegp.model.base import read_model as read_model
from sparsegp.model.dense import DenseModel as DenseModel
from sparsegp.model.sparse import SparseModel as SparseModel
