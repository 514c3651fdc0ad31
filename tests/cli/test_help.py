import re

import pytest

from sparsegp.cli.explain import explain
from sparsegp.cli.options import GROUPS, SELDOM
from sparsegp.cli.program import program
from sparsegp.cli.train import train
from sparsegp.data.catalog import CATALOG
from sparsegp.dense import METHODS
from sparsegp.fit.tune import MAX_TRIALS
from sparsegp.settings import DenseSettings, TrainSettings, declared
from tests.processes import invoke, told


@pytest.mark.parametrize("owner", [TrainSettings, DenseSettings])
def test_every_setting_has_an_option(owner):
    options = {parameter.name: parameter for parameter in train.params}
    values = train.make_context("train", ["digits"]).params
    for name, setting in declared(owner).items():
        assert values[name] is None  # left to the API
        if setting.kind is not bool and owner is TrainSettings:
            assert setting.default is None or str(setting.default) in options[name].help
    assert f"[{MAX_TRIALS}]" in options["max_trials"].help


def test_settings_are_spelt_as_options():
    shown = " ".join(invoke("train", "--help-all").output.split()).replace("- ", "-")
    needs = ("With --sites moments: ", "With --stub-entries: ", "with --active-per-class,")
    for words in (*needs, *METHODS):
        assert words in shown
    assert not re.search(rf"({'|'.join(declared(TrainSettings))})=|With \w+:|Do not", shown)
    assert all(f"`{name}`" in shown for name in CATALOG)


def test_help_is_in_groups_and_what_is_seldom_needed_is_behind_another_option():
    for command in ("train", "tune", "estimate"):
        short, long = (invoke(command, f"--help{more}").output for more in ("", "-all"))
        assert re.findall(r"^(\w.*):$", short, re.M) == [*GROUPS]
        assert re.findall(r"^(\w.*):$", long, re.M) == [*GROUPS, SELDOM]
        assert "--help " in short
        assert "--n-nodes" in long
        assert "--n-nodes" not in short
        assert "--help-all" in short
    known = {each.name for command in program.commands.values() for each in command.params}
    assert {name for names in GROUPS.values() for name in names} <= known | {"help"}


def test_defaults_are_those_of_the_command():
    names = ("train", "update")
    first, new = (" ".join(invoke(name, "--help").output.split()) for name in names)
    assert "that of the model" not in first
    assert "[that of the model, else -1]" in new
    assert "--old DATA" in new


def test_names_are_completed():
    (option,) = (each for each in train.params if each.name == "criterion")
    context = train.make_context("train", ["digits"])
    assert [each.value for each in option.shell_complete(context, "en")] == ["entropy"]


def test_lists_that_are_given_repeatedly_are_joined(tmp_path):
    given = ["--drop", "a", "--missing", "x,z", "--kinds", "b=date", "--class-weight", "u=2"]
    more = ["--drop", '"b, c"', "--missing", "w", "--kinds", "c=number", "--class-weight", "v=3"]
    found = train.make_context("train", ["--drop", "", *given, *more, "digits"]).params
    assert (found["drop"], found["missing"]) == ('a,"b, c"', "x,z,w")
    assert (found["kinds"], found["class_weight"]) == ("b=date,c=number", "u=2,v=3")
    rows = explain.make_context("explain", ["run", "toy", "--rows", "0:2", "--rows", "5"])
    assert rows.params["rows"] == "0:2,5"
    for text, drop in (('"a,b"', "a,b"), ('["a", "b"]', "a,b"), ('["a", "b, c"]', 'a,"b, c"')):
        (tmp_path / "run.toml").write_text(f"drop = {text}")
        config = ["--config", str(tmp_path / "run.toml"), "digits"]
        found = train.make_context("train", config).params
        assert (found["drop"], found["missing"]) == (drop, None)


def test_options_from_a_file(files, tmp_path):
    path = tmp_path / "run.toml"
    text = f'out = "{tmp_path / "run"}"\nn-active = 9\nno-lazy = true\nseed = 1\nquiet = true'
    path.write_text(f'{text}\ndata = "{files / "only.npz"}"')
    settings = told("train", "--config", path, "--seed", 2)["settings"]
    assert (settings["n_active"], settings["seed"], settings["lazy"]) == (9, 2, False)
    path.write_text('n-active = "auto"')
    assert train.make_context("train", ["--config", str(path), "digits"]).params["n_active"] is None
    path.write_text(f'out = "{tmp_path / "other"}"\nheader = false\nn-active = 9')
    for more, rows in (((), 100), (("--header",), 99)):
        arguments = ("train", files / "rows.csv", "--config", path, *more, "--overwrite")
        assert told(*arguments)["rows"] == rows
    for text, message in (
        ("n-actve = 3", "'n-actve' (did you mean 'n-active'?) must be an option"),
        ("= 3", "as TOML"),
        ("seed = " + 9999 * "[", "as TOML"),
        ("seed = 0x1" + 9999 * "0", "as TOML"),
        ("n-active = 1.5", "'1.5' is not a valid integer"),
        ("n-active = inf", "'inf' is not a valid integer"),
        ("n-active = 2024-01-01", "'2024-01-01' is not a valid integer"),
    ):
        path.write_text(text)
        assert message in invoke(*arguments, code=2).stderr


def test_program():
    shown = invoke("--help").output
    assert invoke().output == shown
    for name, command in program.commands.items():
        assert f"  {name} " in shown
        assert command.get_short_help_str(35).removesuffix("...") in shown
    assert "0.1.0" in invoke("--version").output
