"""Classifiers and regressors with the interface of scikit-learn."""

from sparsegp.estimator.classifiers import DenseGPClassifier as DenseGPClassifier
from sparsegp.estimator.classifiers import SparseGPClassifier as SparseGPClassifier
from sparsegp.estimator.regressors import DenseGPRegressor as DenseGPRegressor
from sparsegp.estimator.regressors import SparseGPRegressor as SparseGPRegressor
