"""Command line: options in, one call of the Python API, figures out.

A command is one file, and one entry in `program.program`. What is slow to import waits until it
runs, so that `--help` answers at once.
"""

import sys

from sparsegp.errors import Interrupted
from sparsegp.interrupt import StoppedAtOnce, StopRequest


def main() -> None:
    """Run the program; signals are caught before anything slow is imported."""
    try:
        with StopRequest(at_once=True):
            from sparsegp.cli.program import program

            program(prog_name="sparsegp")
    except StoppedAtOnce as stop:
        sys.stderr.write(f"{stop}\n")
        sys.exit(Interrupted.exit_code)
