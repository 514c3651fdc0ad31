"""Posteriors over the span of the active rows, and predictions."""
