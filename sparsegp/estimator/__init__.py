"""Classifiers and regressors as estimators of scikit-learn."""

from sparsegp.estimator.classifier import SparseGPClassifier as SparseGPClassifier
from sparsegp.estimator.dense import DenseGPClassifier as DenseGPClassifier
from sparsegp.estimator.dense import DenseGPRegressor as DenseGPRegressor
from sparsegp.estimator.regressor import SparseGPRegressor as SparseGPRegressor
