"""Errors a user can meet.

Every message says what must hold, what was found (name, shape, value, file and line) and what to
do. Each class also inherits the builtin that Python users would catch. The command line prints the
message of a `SparseGPError` on one line and exits with code 2.
"""


class SparseGPError(Exception):
    """Base of all errors that are the user's to mend."""


class DataError(SparseGPError, ValueError):
    """Data that cannot be read or learnt from."""


class SettingsError(SparseGPError, ValueError):
    """A setting out of range, or settings that contradict each other."""


class KernelSyntaxError(SettingsError):
    """A kernel text that does not parse."""


class UnknownNameError(SettingsError, KeyError):
    """A name that a registry does not hold."""

    __str__ = Exception.__str__


class StoreError(SparseGPError, OSError):
    """A checkpoint, model or run directory that is missing, altered or cannot be written."""


class ClusterError(SparseGPError, RuntimeError):
    """A scheduler that does not answer, or workers that were lost for good."""


class NumericalError(SparseGPError, ArithmeticError):
    """A quantity that left the range in which the algorithm is defined."""


class Interrupted(SparseGPError):  # noqa: N818 - a state, not a fault
    """The run was asked to stop; it can be resumed from the checkpoint it wrote."""
