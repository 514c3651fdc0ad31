"""Readers by file format."""
