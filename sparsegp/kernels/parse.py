"""Parser of kernel texts such as ``2*rbf(1.5) + linear``.

A text is parsed as a Python expression but never evaluated. It may contain names of `KERNELS`, with
or without values for their fields, positive numbers, ``+``, ``*`` and parentheses.
"""

import ast
import re
from itertools import pairwise

from sparsegp.errors import KernelSyntaxError, SettingsError, short
from sparsegp.kernels.absolute import Absolute
from sparsegp.kernels.algebra import Constant
from sparsegp.kernels.base import KERNELS, Kernel
from sparsegp.kernels.columns import ColumnNames
from sparsegp.texts import build, call, literal, tree, written

MAX_CHARACTERS = 1 << 19
"""Maximum length of a text: enough for some 25,000 length scales."""


def parse(text: str, columns: ColumnNames | None = None) -> Kernel:
    """Return the kernel that a text describes; the inverse of ``str``.

    Length scales given by name are put into the order of the columns, if these are given.

    Raises
    ------
    KernelSyntaxError
        If the text cannot be read; the message shows the part that is wrong.
    """
    if len(text) > MAX_CHARACTERS:
        raise KernelSyntaxError(f"the text of a kernel must have at most {MAX_CHARACTERS} letters")
    try:
        return _kernel(tree(text), columns)
    except (SettingsError, RecursionError) as error:
        raise KernelSyntaxError(
            f"cannot read kernel {short(text)!r}: {error}; write for example '2*rbf(1.5) + linear'"
        ) from None


def brief(text: str) -> str:
    """Shorten a text for display: 6 significant digits, and the first 3 of many length scales."""
    return re.sub(r"((?:[^(),;]+, ){3})[^();]+", r"\1...", six_digits(text))


def six_digits(text: str) -> str:
    """Round the numbers in a text to 6 significant digits."""
    number = r"(?<![\w.])\d+(\.\d+)?(e[+-]?\d+)?"
    return re.sub(number, lambda found: f"{float(found[0]):.6g}", text)


def split(text: str) -> list[str]:
    """Split a text into the texts of single kernels, at every ``;`` that is not part of a name."""
    names = r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\""
    masked = re.sub(names, lambda name: "_" * len(name[0]), text)
    places = [-1, *(place for place, letter in enumerate(masked) if letter == ";"), len(text)]
    return [text[start + 1 : end].strip() for start, end in pairwise(places)]


def parse_many(text: str, n_classes: int) -> list[Kernel]:
    """Return one kernel per class from texts separated by ``;``; a single one is for all classes.

    Raises
    ------
    KernelSyntaxError
        If one of the texts cannot be read.
    SettingsError
        If the number of texts is neither one nor `n_classes`.
    """
    kernels = [*map(parse, split(text))]
    if len(kernels) == 1:
        return kernels * n_classes
    if len(kernels) != n_classes:
        raise SettingsError(
            f"kernels must be one for all or one for each of the {n_classes} classes, got "
            f"{len(kernels)} in {text!r}; separate them by ';'"
        )
    return kernels


def _kernel(node: ast.expr, columns: ColumnNames | None) -> Kernel:
    """Return the kernel that a syntax tree describes."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return _kernel(left, columns) + _kernel(right, columns)
        case ast.BinOp(left, ast.Mult(), right):
            return _kernel(left, columns) * _kernel(right, columns)
        case ast.BinOp():
            raise SettingsError(f"kernels are joined by + and * only, got {written(node)}")
        case ast.Constant() | ast.UnaryOp():
            return Constant(literal(node))
        case _:
            kernel, values, named = call(node, KERNELS)
            by_name = len(values) > kernel.n_fixed and isinstance(values[-1], dict)
            if kernel.variadic and by_name:
                names = (*values[-1],)
                known = columns or ColumnNames(names, names)
                values[-1:] = known.in_order(values[-1], issubclass(kernel, Absolute))
            return build(kernel, values, named)
