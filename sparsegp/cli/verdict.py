"""What an error means to the shell: an exit code, and a line on standard error."""

from sparsegp.errors import Interrupted, SparseGPError

FAILED, STOPPED, KILLED = 2, 75, 130


def verdict(error: BaseException) -> tuple[int, str] | None:
    """Return exit code and line, None for an error that is a fault of the program."""
    if isinstance(error, Interrupted):
        return STOPPED, str(error)
    if isinstance(error, SparseGPError):
        return FAILED, f"error: {error}{_place(error)}"
    if isinstance(error, MemoryError):
        reason = str(error) or type(error).__name__
        return FAILED, (
            f"error: memory is full ({reason}); lower --n-active, or see what fits by "
            "`sparsegp estimate`"
        )
    if isinstance(error, KeyboardInterrupt):
        return KILLED, "interrupted"
    return None


def _place(error: SparseGPError) -> str:
    """Return in which row block or task an error was raised, if in one."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("raised by ")]
    return f" ({notes[0]})" if notes else ""
