"""Published tables and figures, run again and printed beside the published numbers.

A pipeline is a TOML file in one of the folders beside this file; ``python -m pipelines FILE.toml
--data DIR`` runs it. README.md says what such a file holds.
"""
