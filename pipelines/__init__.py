"""Published tables and figures, reproduced and printed next to the published numbers.

A pipeline is a TOML file in one of the folders next to this file; ``python -m pipelines FILE.toml
--data DIR`` runs it. README.md describes these files.
"""
