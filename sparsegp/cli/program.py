"""The program: its commands, and their errors as a line and an exit code (see its epilog)."""

import errno
import logging
import os
import re
import resource
import sys
import warnings
from io import TextIOWrapper
from typing import Any, NoReturn

import click

import sparsegp
from sparsegp.cli import INTERRUPTED, resuming
from sparsegp.cli.estimate import estimate
from sparsegp.cli.evaluate import evaluate
from sparsegp.cli.explain import explain
from sparsegp.cli.inspect import inspect
from sparsegp.cli.options import as_typed
from sparsegp.cli.output import show
from sparsegp.cli.predict import predict
from sparsegp.cli.train import train
from sparsegp.cli.tune import tune
from sparsegp.cli.update import update
from sparsegp.errors import Interrupted, SettingsError, SparseGPError, size

FAILED = 2

ADDRESSES, ADDRESSES_PER_THREAD = 1_400_000_000, 175_000_000
"""Bytes of address space that libraries reserve, mostly without using them. With a lower limit BLAS
may crash, or hang and ignore signals."""

TOO_LARGE = {"FloatingPointError", "LinAlgError", "OverflowError", "ZeroDivisionError"}
"""Errors of computations in which some numbers are too large."""
LONGEST_WORD = 300
"""Maximum length of a word in a message, which may quote input of any length."""


class _Warnings(logging.Handler):
    """A handler that shows each message once, since the same rows may be read several times."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self.shown:
            self.shown.add(text)
            show([f"warning: {as_typed(text)}"], err=True)


class Command(click.Command):
    """A command whose errors become a line on standard error and an exit code."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        if isinstance(sys.stdout, TextIOWrapper):  # neither closed nor replaced
            sys.stdout.reconfigure(errors="backslashreplace")  # for characters it cannot encode
        logger, handler = logging.getLogger("sparsegp"), _Warnings()
        logger.addHandler(handler)
        silent = logging.getLogger("distributed.client")  # a traceback for a lost scheduler
        silent.disabled = True
        former, sys.unraisablehook = sys.unraisablehook, _unless_interrupted
        try:
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # errors follow
                code = super().main(*args, **{**extra, "standalone_mode": False}) or 0
        except (Exception, Interrupted) as error:
            code, line = verdict(error)
            if isinstance(error, Interrupted):
                line = line.replace("continue with --resume", resuming(args[0] if args else None))
            if isinstance(error, OSError) and sys.stdout is not None:
                try:  # else what cannot be written would fail again at exit
                    sys.stdout.flush()
                except OSError:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            line = re.sub(rf"(\S{{{LONGEST_WORD}}})\S+", r"\1...", " ".join(line.split()))
            show([line], err=True)
        finally:
            logger.removeHandler(handler)
            silent.disabled = False
            sys.unraisablehook = former
        sys.exit(code)


class Program(Command, click.Group):
    """A group of commands, and its errors."""


def verdict(error: BaseException) -> tuple[int, str]:
    """Return exit code and message of an error; re-raise errors of the program itself."""
    code, text = FAILED, str(error)
    match error:
        case Interrupted():
            return error.exit_code, as_typed(text)
        case click.Abort():  # click's word for a second Ctrl-C
            return INTERRUPTED, "interrupted"
        case click.UsageError():  # options that do not exist or are no numbers
            command = error.ctx.command_path if error.ctx else "sparsegp"
            text = f"{error.format_message().rstrip('.')} (see `{command} --help`)"
        case SparseGPError():
            notes = getattr(error, "__notes__", ())
            block = [f" ({note})" for note in notes if note.startswith("raised by ")][:1]
            code, text = error.exit_code, as_typed(text) + "".join(block)
        case MemoryError():
            text = (
                f"memory is full ({text or type(error).__name__}); free some, or train with a "
                "lower --n-active (`sparsegp estimate` says what fits)"
            )
        case OSError():
            if error.errno == errno.ENOSPC:
                text += ": standard output, or a temporary file, cannot be written; "
                text += "free space or write elsewhere"
        case _ if type(error).__name__ in TOO_LARGE:
            text = (
                f"inputs, weights or kernel have numbers too large to compute with ({text}); scale "
                "them, or use a kernel of smaller variance"
            )
        case _:
            raise error
    return code, f"error: {text}"


def require_address_space() -> None:
    """Raise a SettingsError if the limit of the address space (`ulimit -v`) is too low."""
    if not hasattr(os, "sched_getaffinity"):  # no Linux
        return
    processors = len(os.sched_getaffinity(0))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    needed = ADDRESSES + ADDRESSES_PER_THREAD * (processors + 2)
    if resource.RLIM_INFINITY != limit < needed:
        raise SettingsError(
            f"the address space of a process must be at least {size(needed)} on this machine, and "
            f"is limited to {size(limit)}; raise the limit, ulimit -v"
        )


def _unless_interrupted(found: "sys.UnraisableHookArgs") -> None:
    """Show an exception in a finalizer, unless it is a second Ctrl-C that came just then."""
    if not isinstance(found.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(found)


@click.group(
    cls=Program,
    commands=[train, tune, update, predict, evaluate, explain, inspect, estimate],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 2 error, 75 stopped on request (continue with --resume), 130 "
    "interrupted.",
)
@click.version_option(sparsegp.__version__, prog_name="sparsegp")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Sparse Gaussian process classifiers by the informative vector machine."""
    require_address_space()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
