"""Texts of kernels, the words of their refusal, and kernels made by operators."""

import math
import re

import numpy as np
import pytest

from sparsegp.errors import KernelSyntaxError, SettingsError
from sparsegp.kernels import (
    ARD,
    KERNELS,
    RBF,
    ColumnNames,
    Constant,
    Laplace,
    Linear,
    Matern32,
    Matern52,
    Power,
    Product,
    Sum,
    brief,
    parse,
    parse_many,
    split,
)

KNOWN = f"known: {', '.join(KERNELS)}"


@pytest.mark.parametrize(
    ("text", "kernel", "canonical"),
    [
        ("rbf", RBF(), "rbf"),
        ("rbf(2)", RBF(2.0), "rbf(2.0)"),
        ("  rbf( +2.5e-1 )\n", RBF(0.25), "rbf(0.25)"),
        ("ard", ARD(), "ard"),
        ("ard((1, 2.5))", ARD((1.0, 2.5)), "ard(1.0, 2.5)"),
        ("ard(1, 2.5)", ARD([1, 2.5]), "ard(1.0, 2.5)"),
        ("ard([1, 2.5])", ARD((1.0, 2.5)), "ard(1.0, 2.5)"),
        ("power(0.5)", Power(0.5), "power(0.5)"),
        ("power(0.5, 2)", Power(0.5, (2.0,)), "power(0.5, 2.0)"),
        ("power(0.5, 2, 3)", Power(0.5, (2, 3)), "power(0.5, 2.0, 3.0)"),
        ("power(exponent=1, length_scales=[2, 3])", Power(1.0, (2.0, 3.0)), "power(1.0, 2.0, 3.0)"),
        ("linear", Linear(), "linear"),
        ("2", Constant(2.0), "2.0"),
        ("10*rbf(5)", Product((Constant(10.0), RBF(5.0))), "10.0*rbf(5.0)"),
        ("0.5 + rbf(2)", Sum((Constant(0.5), RBF(2.0))), "0.5 + rbf(2.0)"),
        ("2*(rbf +\n linear)*3", 2 * (RBF() + Linear()) * 3, "2.0*(rbf + linear)*3.0"),
    ],
)
def test_reads_and_writes(text, kernel, canonical):
    assert parse(text) == kernel
    assert str(kernel) == canonical


ENCODED = ColumnNames(
    ("a", "a missing", "c=x", "c=y"), ("a", "a missing", "c", "c"), ("b",), ("c=",)
)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("ard({'c': 3, 'a missing': 4, 'a': 5})", ARD((5.0, 4.0, 3.0, 3.0))),
        (
            "2*power(0.5, {'c=y': 3, 'c': 1, 'b': 9, 'c=z': 9})",
            2 * Power(0.5, (2.0, 2.0, 1.0, 3.0)),
        ),
        (
            "laplace({'a': (1, 2, 3, 4), 'c': (5, 6, 7, 8)})",
            Laplace((1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 5.0, 6.0, *(5.0, 6.0, 7.0, 8.0) * 2)),
        ),
    ],
)
def test_length_scales_by_name(text, kernel):
    """Columns without a length scale get the median."""
    assert parse(text, ENCODED) == kernel
    assert parse(ENCODED.text(kernel), ENCODED) == kernel
    assert parse(text).complete


def test_any_name_can_be_written():
    names = ("#; a\u2003\\", "b  'c'\t\"é)", " {1: 2}, ")
    columns, kernel = ColumnNames(names, names), 2 * (ARD((1.0, 2.0, 3.0)) + RBF(1))
    text = columns.text(kernel)
    assert split(f"{text}; rbf") == [text, "rbf"]
    assert parse(text, columns) == kernel


@pytest.mark.parametrize("name", ["x", "a=x", "a: year", "bc"])
def test_names_of_no_column_are_refused(name):
    with pytest.raises(KernelSyntaxError, match=f"got '{name}'; found: a, a missing, c"):
        parse(f"ard({{'a': 1, '{name}': 2}})", ENCODED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2*mtern(1)", "kernel '2*mtern(1)': unknown kernel 'mtern' (did you mean 'matern52'?); "),
        ("2*sin(1)", f"kernel '2*sin(1)': unknown kernel 'sin'; {KNOWN}; write for example"),
        ("rbf(1)\n+ x(2)", "unknown kernel 'x'"),
        ("ard({'a': 1, 'b': (1, 2)})", "or in laplace, power and additive four, got {'a': 1"),
        ("ard({})", "additive four, got {}"),
        ("ard({'a': -1})", "length scale 0 of ard must be positive"),
        ("ard({'a': 'x'})", "a number for each name"),
        ("ard({'a': '1'})", "a number for each name"),
        ("ard({'a': (1, 2)})", "a number for each name"),
        ("ard({'a': (1, 2, 3, 4)})", "a number for each name, or in laplace"),
        ("ard({'a': True})", "a number for each name"),
        ("ard({'a': 1, 'b': 1, \"b\": 2})", "a name must have one value, got several for 'b'; le"),
        ("power({'a': 1})", "exponent of power must be one number"),
        ("é + rbf(0)", "unknown kernel 'é'"),
        ("", "cannot read kernel '': the text is empty; write for example '2*rbf(1.5)"),
        ("rbf(", "'(' was never closed at '('"),
        ("rbf(1) +", "invalid syntax at its end"),
        (" rbf(1) rbf(2)", "invalid syntax at 'rbf(2)'"),
        ("0*rbf", "a constant kernel must be positive and finite, got 0.0"),
        ("rbf(1, 2)", "rbf takes at most 1 value (length_scale), got 2"),
        ("power(1, 2, length_scales=3)", "power has two values of `length_scales`"),
        ("rbf(scale=2)", "rbf has no settings `scale`; it knows `length_scale`"),
        ("power + rbf", "power needs `exponent`"),
        ("power(1.5)", "the exponent of power must be at most 1, got 1.5"),
        ("ard(())", "must be one number per column, as in ard(1.0, 2.0), got ()"),
        ("ard((1, rbf))", "expected a value such as 1.5, got '(1, rbf)'"),
        ("rbf((1, 2))", "the length scale of rbf must be one number, got (1, 2)"),
        ("rbf(**{})", "rbf has no settings `**`"),
        ("rbf(True)", "the length scale of rbf must be one number, got True"),
        ("rbf - linear", "kernels are joined by + and * only, got 'rbf - linear'"),
        ("1or 2", "expected a name, perhaps with values, got '1 or 2'"),
        ("__import__('os').abort()", "expected a name, perhaps with values, got "),
        ("a\0b", "cannot read kernel"),
        ("rbf(1) # + linear", "it must not contain '#' outside of names"),
        ("1" * 5000, "cannot read kernel"),
        ("+".join(["rbf"] * 9000), "cannot read kernel"),
        ("(" * 500 + "rbf" + ")" * 500, "cannot read kernel"),
    ],
    ids=lambda value: value[:30],
)
def test_refuses_in_one_line(text, message, recwarn):
    with pytest.raises(KernelSyntaxError, match=re.escape(message)) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert isinstance(caught.value, SettingsError)
    assert not recwarn.list


def test_many_texts():
    assert parse_many("rbf(2)", 3) == [RBF(2)] * 3
    assert parse_many("rbf(2); linear ;2*rbf", 3) == [RBF(2), Linear(), 2 * RBF()]
    assert parse_many("rbf", 1) == [RBF()]
    message = "one for each of the 3 classes, got 2 in 'rbf; linear'; separate them by ';'"
    with pytest.raises(SettingsError, match=message):
        parse_many("rbf; linear", 3)
    with pytest.raises(KernelSyntaxError, match="the text is empty"):
        parse_many("rbf; linear;", 3)
    with pytest.raises(KernelSyntaxError, match="'liner': unknown kernel"):
        parse_many("rbf; liner", 2)


def test_names_of_columns_may_have_semicolons():
    texts = ["laplace({'a;b': 2, \"c';\": 3})", r"ard({'it\'s;': 1})", "rbf"]
    assert split(" ; ".join(texts)) == texts
    assert split("rbf;'") == ["rbf", "'"]


def test_brief_text():
    scales = ", ".join(map(str, range(1, 10)))
    text = f"50.0*matern32(1.23456789) + 1e-05*ard({scales}); ard({scales[:7]})"
    short = "50*matern32(1.23457) + 1e-05*ard(1, 2, 3, ...); ard(1, 2, 3)"
    assert brief(text) == short


def test_operators_flatten():
    a, b, c = RBF(1), Linear(), Matern32(2)
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a * b) * c == a * (b * c) == Product((a, b, c))
    assert Sum((a, Sum((b, c)))).parts == (a, b, c)
    assert (a + b) * c == Product((Sum((a, b)), c))


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.int64(2), 2])
def test_operators_take_numbers(number):
    a = RBF(1)
    assert number * a == Product((Constant(2.0), a))
    assert a * number == Product((a, Constant(2.0)))
    assert a + number == Sum((a, Constant(2.0)))
    assert str(number + RBF(number)) == "2.0 + rbf(2.0)"


def test_operators_refuse_the_rest():
    with pytest.raises(SettingsError, match=r"constant kernel must be positive .* got -1.0"):
        RBF(1) * -1
    for other in ("rbf", None, True, np.ones(2)):
        with pytest.raises(TypeError):
            RBF(1) + other
        with pytest.raises(TypeError):
            other * RBF(1)


@pytest.mark.parametrize("make", [RBF, Matern32, Matern52, Linear, Constant])
@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, 10**400])
def test_parameters_are_positive_and_finite(make, value):
    with pytest.raises(SettingsError, match="must be positive and finite, got"):
        make(value)
    with pytest.raises(SettingsError, match="length scale 1 of ard must be positive"):
        ARD((1.0, value))


def test_exponents_too_small_for_a_default_length_scale_are_refused():
    with pytest.raises(SettingsError, match="must be positive and finite, got inf"):
        parse("power(0.005)").fill(np.ones(64))
