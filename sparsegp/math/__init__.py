"""Scalar functions, quadrature and linear algebra."""
