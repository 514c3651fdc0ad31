"""Texts of likelihoods: what can be read, and what is refused."""

import pytest

from sparsegp.errors import SettingsError
from sparsegp.likelihoods import (
    Gaussian,
    Logistic,
    MultinomialProbit,
    OrderedProbit,
    Probit,
    Softmax,
)
from sparsegp.likelihoods.parse import parse
from sparsegp.settings import TrainSettings

TEXTS = {
    "probit(-1.5)": Probit(-1.5),
    "probit(bias=-1.5)": Probit(-1.5),
    " logistic ( +2 ) ": Logistic(2.0),
    "gaussian(0.02)": Gaussian(0.02),
    "gaussian(1e-3)": Gaussian(0.001),
    "ordered_probit(-1, 0.5)": OrderedProbit((-1.0, 0.5)),
    "ordered_probit((-1, 0.5))": OrderedProbit((-1.0, 0.5)),
    "multinomial_probit(20)": MultinomialProbit(20),
    "multinomial_probit(12, (0.5, 0, -1))": MultinomialProbit(12, (0.5, 0.0, -1.0)),
    "softmax(3, (0.5, -0.5))": Softmax(3, (0.5, -0.5)),
    "softmax(3, biases=[0.5, -0.5])": Softmax(3, (0.5, -0.5)),
}


@pytest.mark.parametrize("text", TEXTS)
def test_numbers_are_fields_in_their_order(text):
    found = parse(text)
    assert found.given == TEXTS[text]
    assert found.family is type(TEXTS[text])
    assert found.given.to_json() == TEXTS[text].to_json()  # 2 and 2.0 are equal, but not there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read likelihood '': the text is empty; write for example 'probit' or 'probit"),
        (
            "prbit",
            r"^unknown likelihood 'prbit' \(did you mean 'probit'\?\); known: gaussian, logistic",
        ),
        ("cauchy(1)", "^unknown likelihood 'cauchy'; known: gaussian"),
        ("probit('a')", "bias must be a number, got 'a'"),
        ("probit(True)", "bias must be a number, got True"),
        ("probit(1e999)", "bias must be a finite number, got inf"),
        ("gaussian(-1)", "noise_variance must be at least 1e-30, got -1"),
        ("softmax(3, 0.1)", "biases must be numbers in parentheses, got 0.1"),
        ("ordered_probit(1, 0)", "strictly increasing"),
        ("probit({[]: 1})", "expected a value such as 1.5, got "),
        (f"probit({10**400})", r"bias must be a finite number, got 10+\.\.\.;"),
    ],
)
def test_what_cannot_be_read_is_said(text, message):
    with pytest.raises(SettingsError, match=message):
        TrainSettings.given(likelihood=text)


def test_settings_start_from_the_numbers():
    assert TrainSettings.given(likelihood="probit(-1.5)").start_likelihood(2) == Probit(-1.5)
    assert TrainSettings.given(likelihood="probit").start_likelihood(2) == Probit()
    settings = TrainSettings.given(task="regression", likelihood="gaussian(0.02)")
    assert settings.is_regression
    assert settings.start_likelihood(0) == Gaussian(0.02)
    assert TrainSettings.given(**settings.to_json()) == settings


@pytest.mark.parametrize(
    ("text", "n_classes", "message"),
    [
        ("probit(-1.5)", 3, "needs exactly 2 classes, got 3; for more use"),
        ("ordered_probit(0, 1)", 4, r"has 2 parameters, and 4 classes need 3 \(first, log_gap_1"),
        ("softmax(3, (0, 1))", 3, r"softmax\(3, \(0.0, 1.0\)\) has 2 parameters, and 3 classes"),
    ],
)
def test_numbers_for_other_classes_are_refused(text, n_classes, message):
    with pytest.raises(SettingsError, match=message):
        TrainSettings.given(likelihood=text).start_likelihood(n_classes)


def test_numbers_are_for_moments():
    text = "multinomial_probit(12, (0, 1))"
    with pytest.raises(SettingsError, match="parameters of likelihoods are for sites=moments"):
        TrainSettings(likelihood=text)
    assert TrainSettings.given(likelihood=text).sites == "moments"
