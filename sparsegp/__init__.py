"""Sparse Gaussian process classification by the informative vector machine."""

__version__ = "0.1.0"
