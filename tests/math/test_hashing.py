"""Hashes of rows: equal for equal values, different for all others."""

import numpy as np

from sparsegp.math.hashing import PIECE, hashes_of_rows


def test_equal_rows_and_no_others_have_equal_hashes():
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (PIECE, 5)) * 0.5
    _, family = np.unique(X, axis=0, return_inverse=True)
    for rows in (X, X.astype(np.float32), np.where(X == 0.0, -0.0, X), np.asfortranarray(X)):
        hashes = hashes_of_rows(rows)
        np.testing.assert_array_equal(hashes, hashes_of_rows(X))
        _, found = np.unique(hashes, return_inverse=True)
        pairs = np.unique(np.stack([family.ravel(), found]), axis=1)
        assert pairs.shape[1] == len(np.unique(family)) == len(np.unique(found))
    turned = hashes_of_rows(X[:, ::-1])
    assert ((turned == hashes_of_rows(X)) == (X[:, ::-1] == X).all(axis=1)).all()
