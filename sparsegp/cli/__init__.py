"""Command line: each command makes one call of the Python API and prints the results.

A command is one file and one entry in `program.program`. Slow imports wait until the command runs,
so that `--help` answers at once.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from sparsegp.errors import Interrupted, masked, visible
from sparsegp.interrupt import StoppedAtOnce, StopRequest

AGAIN, INTERRUPTED = "run it again", 130
"""How to continue a command that cannot be resumed, and its exit code when it was interrupted."""


def main() -> None:
    """Run the program; signals are caught before anything slow is imported."""
    if (stream := sys.stderr) is not None:  # else it was closed before the program began
        # on a full disk, buffered text would fail again when worker processes start, and at exit
        raw = os.fdopen(stream.fileno(), "wb", buffering=0, closefd=False)
        sys.stderr = TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)
    remedy = resuming()
    code = INTERRUPTED if remedy == AGAIN else Interrupted.exit_code
    try:
        with StopRequest(at_once=f"what was saved before is unchanged ({remedy})", code=code):
            from sparsegp.cli.program import program

            program(prog_name="sparsegp")
    except StoppedAtOnce as stop:
        from sparsegp.cli.output import show

        show([str(stop)], err=True)
        sys.exit(code)


def resuming(words: Sequence[str] | None = None) -> str:
    """Return how to continue a command that was stopped, by default that of this process."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] not in (["train"], ["tune"], ["update"]):
        return AGAIN
    words = [word for word in words if word not in {"--resume", "--overwrite"}]
    return f"continue with: {visible(masked(shlex.join(['sparsegp', *words, '--resume'])))}"
