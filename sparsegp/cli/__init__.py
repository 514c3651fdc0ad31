"""Command line: options in, one call of the Python API, figures out.

A command is one file with one entry in `program.COMMANDS`. What is slow to import waits until a
command runs, so that `--help` answers at once.
"""

from sparsegp.cli.program import main as main
