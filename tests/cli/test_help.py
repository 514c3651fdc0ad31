import re
import subprocess
import sys
from dataclasses import fields

import pytest

from sparsegp.cli.options import SETTINGS
from sparsegp.cli.program import COMMANDS
from sparsegp.cli.train import train
from sparsegp.settings import DEFAULT_N_ACTIVE, DEFAULT_PANEL, TrainSettings

HEAVY = "{'numpy', 'scipy', 'dask', 'distributed', 'zarr', 'sklearn', 'rich', 'threadpoolctl'}"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(command, environment):
    script = (
        "import sys\n"
        "from sparsegp.cli import main\n"
        f"main([*{command.split()!r}, '--help'], standalone_mode=False)\n"
        f"assert not {HEAVY} & set(sys.modules), {HEAVY} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout


def test_every_setting_has_an_option():
    assert set(SETTINGS) == {field.name for field in fields(TrainSettings)}


def test_defaults_in_the_help_are_those_of_the_settings():
    shown = {}
    for parameter in train.params:
        found = re.search(r"\[([^][]+)\]$", getattr(parameter, "help", None) or "")
        if parameter.name in SETTINGS and found:
            shown[parameter.name] = found[1]
    settings = TrainSettings()
    described = {"n_active", "panel"}
    for name in set(shown) - described:
        assert shown[name] == str(getattr(settings, name))
    assert str(DEFAULT_PANEL) in shown["panel"]
    assert str(DEFAULT_N_ACTIVE) in shown["n_active"]
    without = {"kernel_per_class", "active_per_class", "lazy", "hyperprior", "stub_entries"}
    assert set(shown) == set(SETTINGS) - without


def test_program(invoke):
    result = invoke("--help")
    for name, lazy in COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(lazy.summary)}", result.output)
    assert "0.1.0" in invoke("--version").output
    result = invoke("tarin", "digits", code=2)
    assert "No such command 'tarin'" in result.stderr


def test_every_command_is_summarised(invoke):
    for name in COMMANDS:
        assert invoke(name, "--help").output.startswith(f"Usage: main {name}")
