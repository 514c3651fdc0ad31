"""The one list of settings: every one is checked by what it declares."""

import math

import numpy as np
import pytest

from sparsegp.errors import SettingsError
from sparsegp.settings import DenseSettings, TrainSettings, declared, settings_given

WRONG = {
    int: [1.5, "5", True, None, 10**30, 10**5000, [1]],
    float: [math.nan, math.inf, "0.5", True, None, 10**400],
    str: [5, None, b"rbf", ["rbf"]],
    bool: [1, "yes", None],
}


every_setting = pytest.mark.parametrize(
    ("owner", "setting"),
    [(each, s) for each in (TrainSettings, DenseSettings) for s in declared(each).values()],
    ids=lambda case: getattr(case, "name", None),
)


@every_setting
def test_wrong_values_are_refused_in_a_sentence(owner, setting):
    wrong = [each for each in WRONG[setting.kind] if each is not None or not setting.optional]
    if setting.least is not None:
        wrong.append(setting.kind(setting.least) - 1)
    if setting.above is not None:
        wrong.append(setting.above)
    if setting.most is not None:
        wrong.append(setting.kind(setting.most) + 1)
    if setting.choices:
        wrong.append("no such name")
    for value in wrong:
        message = f"^{setting.name} must be |^unknown {setting.name} 'no such name'"
        with pytest.raises(SettingsError, match=message) as refused:
            owner(**{setting.name: value})
        assert len(str(refused.value)) < 250


@every_setting
def test_help_names_every_choice(owner, setting):
    assert setting.help.endswith(".")
    for choice in setting.names:
        assert choice in setting.help


def test_numbers_of_numpy_become_plain():
    settings = TrainSettings(n_active=np.int64(5), tolerance=np.float32(0.5), lazy=np.bool_(False))
    stored = settings.to_json()
    assert [type(stored[name]) for name in ("n_active", "tolerance", "lazy")] == [int, float, bool]


def test_number_may_be_auto():
    assert TrainSettings(n_active="auto") == TrainSettings(n_active=None)
    for given in ("many", ""):
        with pytest.raises(SettingsError, match="n_active must be a whole number or auto"):
            TrainSettings(n_active=given)


@pytest.mark.parametrize(
    "settings", [TrainSettings.given(seed=3), DenseSettings(method="ep(damping=0.5)")]
)
def test_json(settings):
    assert settings_given(**settings.to_json()) == settings


@pytest.mark.parametrize("likelihood", ["probit", "logistic"])
@pytest.mark.parametrize("posterior", ["all", "active"])
def test_a_posterior_of_variational_sites_brings_these(likelihood, posterior):
    settings = TrainSettings.given(likelihood=likelihood, posterior=posterior)
    assert (settings.sites, settings.criterion_used) == ("variational", "predictive")
    for named in ({}, {"posterior": "adf"}):
        general = TrainSettings.given(likelihood=likelihood, **named)
        assert (general.sites, general.criterion_used) == ("moments", "information")


@pytest.mark.parametrize("owner", [{}, {"method": "laplace"}])
def test_unknown_names_are_refused(owner):
    with pytest.raises(SettingsError, match=r"no settings `n_rows`; it knows .*kernel"):
        settings_given(**owner, n_rows=3)
    with pytest.raises(SettingsError, match=r"settings `kernle`; did you mean `kernel`\? It "):
        settings_given(**owner, kernle="rbf")
    with pytest.raises(SettingsError, match=r"settings `random_state`; did you mean `seed`\? It "):
        settings_given(**owner, random_state=1)


@pytest.mark.parametrize("given", [{"panel": 10**9}, {"lookahead": 10**9, "panel": 1}])
def test_batches_hold_no_more_rows_than_the_active_set(given):
    """Blocks and driver allocate their square."""
    assert TrainSettings(n_active=50, **given).order.slots == 50
    assert TrainSettings(**given).order.slots == 1000


@pytest.mark.parametrize(
    ("method", "learn", "said"),
    [
        ("gibbs", "evidence", "needs the gradient .* use one of .*laplace"),
        ("ep", "hmc", "`steps` must be at least"),
        ("variational(importance=20)", "evidence", "learns length scales itself; leave out"),
    ],
)
def test_kernels_are_learnt_in_one_way_that_works(method, learn, said):
    with pytest.raises(SettingsError, match=said):
        DenseSettings(method=method, learn=learn, steps=2)


def test_only_a_sparse_model_chooses_its_kernel():
    assert TrainSettings(kernel=None).kernel is None
    with pytest.raises(SettingsError, match=r"`kernel` must be one such as '10\*rbf', got None"):
        DenseSettings(kernel=None)
