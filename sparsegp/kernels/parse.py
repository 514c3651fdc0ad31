"""Kernel texts: ``2*rbf(1.5) + linear``.

A text is read as a Python expression but never evaluated. It holds names of `KERNELS`, with
arguments in the order of their fields or without any, positive numbers, ``+``, ``*`` and
parentheses.
"""

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import MISSING, fields

from sparsegp.errors import KernelSyntaxError, SettingsError, short
from sparsegp.kernels.algebra import Constant
from sparsegp.kernels.base import KERNELS, Kernel

Argument = float | tuple[float, ...]

MOST_CHARACTERS = 1 << 19
"""Of a text: some 25,000 length scales."""


def parse(text: str) -> Kernel:
    """Return the kernel that a text describes; the inverse of ``str``.

    Raises
    ------
    KernelSyntaxError
        With the position, counted from 1, and the part of the text that is at fault.
    """
    if len(text) > MOST_CHARACTERS:
        raise KernelSyntaxError(f"the text of a kernel must have at most {MOST_CHARACTERS} letters")
    if not text.strip():
        raise KernelSyntaxError(
            f"cannot read kernel {text!r}: the text is empty; write for example 'rbf(1.5)'"
        )
    return _Reader(re.sub(r"\s", " ", text)).read()  # one line, positions unchanged


def brief(text: str) -> str:
    """Return a text to be shown: numbers of 6 digits, and of many length scales the first 3."""
    return re.sub(r"((?:[^(),;]+, ){3})[^();]+", r"\1...", six_digits(text))


def six_digits(text: str) -> str:
    """Return the text of kernels with numbers of 6 digits."""
    number = r"(?<![\w.])\d+(\.\d+)?(e[+-]?\d+)?"
    return re.sub(number, lambda found: f"{float(found[0]):.6g}", text)


def parse_many(text: str, n_classes: int) -> list[Kernel]:
    """Return one kernel per class from texts separated by ``;``; one text serves all classes.

    Raises
    ------
    KernelSyntaxError
        If one of the texts cannot be read.
    SettingsError
        If the number of texts is neither one nor `n_classes`.
    """
    kernels = [parse(piece.strip()) for piece in text.split(";")]
    if len(kernels) == 1:
        return kernels * n_classes
    if len(kernels) != n_classes:
        raise SettingsError(
            f"kernels must be one for all or one for each of the {n_classes} classes, got "
            f"{len(kernels)} in {text!r}; separate them by ';'"
        )
    return kernels


class _Reader:
    """Turns the nodes of the syntax tree of one text into kernels."""

    def __init__(self, text: str) -> None:
        self.text, self.expression = text, text.lstrip()

    def read(self) -> Kernel:
        try:
            with warnings.catch_warnings(action="ignore"):  # such as of "1or 2", an error here
                tree = ast.parse(self.expression, mode="eval")
            return self.kernel(tree.body)
        except SyntaxError as error:
            start = error.offset - 1 if error.offset else len(self.expression)
            raise self.error_at(start, None, error.msg) from None
        except KernelSyntaxError:
            raise
        except ValueError as error:  # characters that no Python text may hold
            raise self.error_at(0, None, str(error)) from None
        except (RecursionError, MemoryError):
            raise self.error_at(0, None, "nested too deeply") from None

    def kernel(self, node: ast.expr) -> Kernel:
        match node:
            case ast.BinOp(left, ast.Add(), right):
                return self.kernel(left) + self.kernel(right)
            case ast.BinOp(left, ast.Mult(), right):
                return self.kernel(left) * self.kernel(right)
            case ast.BinOp():
                raise self.error(node, "kernels are joined by + and * only")
            case ast.Name(name):
                return self.named(node, name, [])
            case ast.Call(ast.Name(name), arguments, []):
                return self.named(node, name, arguments)
            case ast.Call(ast.Name(), _, _):
                raise self.error(node, "arguments are given in order, without names")
            case ast.Constant() | ast.UnaryOp():
                return self.build(node, Constant, [self.number(node)])
            case _:
                raise self.error(node, "expected a kernel, a number, + or *")

    def named(self, node: ast.expr, name: str, arguments: list[ast.expr]) -> Kernel:
        if name not in KERNELS:
            raise self.error(node, f"unknown kernel; known: {', '.join(KERNELS)}")
        family, known = KERNELS[name], fields(KERNELS[name])
        values = [self.argument(argument) for argument in arguments]
        last = len(known) - 1
        if family.variadic and values[last:] and not isinstance(values[last], tuple):
            values[last:] = [tuple(self.number(argument) for argument in arguments[last:])]
        least = sum(field.default is MISSING for field in known)
        if not least <= len(values) <= len(known):
            limit = least if len(values) < least else len(known)
            bound = "" if least == len(known) else "at least " if limit == least else "at most "
            names = ", ".join(field.name for field in known)
            takes = f"{bound}{limit} argument{'s' * (limit != 1)}"
            reason = f"{name} takes {takes} ({names}), got {len(values)}"
            raise self.error(node, reason)
        return self.build(node, family, values)

    def build(
        self, node: ast.expr, family: Callable[..., Kernel], arguments: list[Argument]
    ) -> Kernel:
        try:
            return family(*arguments)
        except SettingsError as error:
            raise self.error(node, str(error)) from None

    def argument(self, node: ast.expr) -> Argument:
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.number(element) for element in node.elts)
        return self.number(node)

    def number(self, node: ast.expr) -> float:
        match node:
            case ast.UnaryOp(ast.USub(), operand):
                return -self.number(operand)
            case ast.UnaryOp(ast.UAdd(), operand):
                return self.number(operand)
            case ast.Constant(int() | float() as value) if not isinstance(value, bool):
                return value
            case _:
                raise self.error(node, "expected a number")

    def error(self, node: ast.expr, reason: str) -> KernelSyntaxError:
        """Return the error for one node of the tree."""
        line = self.expression.encode()  # the tree counts bytes
        start = len(line[: node.col_offset].decode())
        return self.error_at(start, line[node.col_offset : node.end_col_offset].decode(), reason)

    def error_at(self, start: int, part: str | None, reason: str) -> KernelSyntaxError:
        """Return the error for a part of the expression, by default all from `start` on."""
        shown = (self.expression[start:] if part is None else part).rstrip()
        position = len(self.text) - len(self.expression) + start + 1
        where = f"position {position} {short(shown)!r}" if shown else "its end"
        return KernelSyntaxError(f"cannot read kernel {short(self.text)!r} at {where}: {reason}")
