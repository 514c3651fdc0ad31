"""The classifier as an estimator of scikit-learn."""

from sparsegp.estimator.classifier import SparseGPClassifier as SparseGPClassifier
