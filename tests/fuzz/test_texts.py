"""Texts of kernels and likelihoods are read back the same, or refused with a `SettingsError`."""

from functools import partial

import pytest
from hypothesis import strategies as st

from sparsegp.errors import SettingsError
from sparsegp.kernels import KERNELS, parse
from sparsegp.likelihoods import LIKELIHOODS
from sparsegp.likelihoods.parse import parse as parse_likelihood
from tests.fuzz.limits import campaign, campaigns

NUMBERS = ["1", "-2", "0", "1e999", "1e-400", "nan", "9" * 30, "1" + "0" * 400, "9" * 5000, "2j"]
NUMBERS += ["0x10", "1_0", "07", "1if", ".5", "1.", "True", "None", "'a'", "b'a'", "...", "\uff11"]
MARKS = ["+", "*", "-", "~", "(", ")", "[", "]", "{", "}", ",", ";", ":", "=", ".", "#", "\\", "\n"]
MARKS += ["\0", "\t", " ", "\x0c", "é", "\ud800", "\u202e", "lambda", "for", "in", "if", "await"]
MARKS += ["f'{", '"', "'", "-" * 3000, "(" * 150, "[" * 3000, "+1" * 3000, "not ", "@", ":=", "**"]


LETTERS = "rbfk12.e-+*/()[]{},;:=#\\'\"\0\t\n \x7f\xa0éß\u0663\u202e\u2028\ud800\uff11\U0001f600"
"""Some of each kind; a table of all that Unicode has takes half a minute to make."""


def words(names):
    parts = st.sampled_from([*names, *(f"{name}(" for name in names), *NUMBERS, *MARKS])
    arguments = st.lists(st.sampled_from(NUMBERS) | parts, max_size=4).map(", ".join)
    calls = st.builds("{}({})".format, st.sampled_from(names), arguments)
    return st.lists(parts | calls, max_size=8).map("".join) | calls | st.text(LETTERS, max_size=20)


KINDS = {
    "kernel": (words(list(KERNELS)), parse),
    "likelihood": (words(list(LIKELIHOODS)), lambda text: parse_likelihood(text).given),
}


def check(read, text):
    try:
        found = read(text)
    except SettingsError as error:
        said = str(error)
    else:
        said = str(found)
        if found is not None:  # else the name stands alone, for what is not learnt yet
            assert read(said) in {found, None}
    assert said.isprintable()
    assert len(said) < 2000


@campaigns(10, 120)
@pytest.mark.parametrize("kind", KINDS)
def test_texts(kind, examples):
    campaign(KINDS[kind][0], partial(check, KINDS[kind][1]), examples)
