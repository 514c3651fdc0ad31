"""The program: its commands, and what a command's end means to the shell.

0    done
2    something is the user's to mend: one line on standard error says what
75   stopped on request, to be continued by --resume
130  interrupted at once, by a second Ctrl-C; or detached from a run that goes on elsewhere
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import sparsegp
from sparsegp.cli.lazy import Lazy, LazyGroup
from sparsegp.cli.verdict import verdict

COMMANDS = {
    "train": Lazy("sparsegp.cli.train:train", "Train a classifier."),
    "tune": Lazy("sparsegp.cli.tune:tune", "Choose the kernel by rows held out."),
    "attach": Lazy("sparsegp.cli.attach:attach", "Show a run that goes on elsewhere, to its end."),
    "predict": Lazy("sparsegp.cli.predict:predict", "Write labels and probabilities of new rows."),
    "evaluate": Lazy("sparsegp.cli.evaluate:evaluate", "Compare predictions with true labels."),
    "inspect": Lazy("sparsegp.cli.inspect:inspect", "Show what a run holds, finished or not."),
    "reproduce": Lazy("sparsegp.cli.reproduce:command", "Run a pipeline; compare with the paper."),
    "estimate": Lazy("sparsegp.cli.estimate:estimate", "Tell memory and work before a run."),
    "certificate": Lazy("sparsegp.cli.certificate:certificate", "Make a certificate for clusters."),
}


class Program(LazyGroup):
    """The group that turns errors into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with _warnings_shown():
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if (found := verdict(error)) is None:
                raise
            code, line = found
            click.echo(" ".join(line.split()), err=True)
            ctx.exit(code)


@click.command(
    cls=Program,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 2 error, 75 stopped on request (go on by --resume), 130 "
    "interrupted or detached.",
)
@click.version_option(sparsegp.__version__, prog_name="sparsegp")
def main() -> None:
    """Sparse Gaussian process classifiers by the informative vector machine."""


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Let warnings of the package appear on standard error, a line each."""
    logger = logging.getLogger("sparsegp")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
