import re
import subprocess
import sys

import pytest

from sparsegp.cli.program import COMMANDS
from sparsegp.cli.train import train
from sparsegp.settings import DenseSettings, TrainSettings, declared

HEAVY = "{'numpy', 'scipy', 'dask', 'distributed', 'zarr', 'sklearn', 'rich', 'threadpoolctl'}"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(command, environment):
    script = (
        "import sys\n"
        "from sparsegp.cli import main\n"
        f"sys.argv = ['sparsegp', *{command.split()!r}, '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"assert not {HEAVY} & set(sys.modules), {HEAVY} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("owner", [TrainSettings, DenseSettings])
def test_every_setting_has_an_option(owner):
    options = {parameter.name: parameter for parameter in train.params}
    values = train.make_context("train", ["digits"]).params
    for name, setting in declared(owner).items():
        assert values[name] is None  # left to the API
        if setting.kind is not bool and owner is TrainSettings:
            assert setting.default is None or str(setting.default) in options[name].help


def test_program(invoke):
    result = invoke("--help")
    for name, summary in COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(summary)}", result.output)
    assert "0.1.0" in invoke("--version").output
    result = invoke("tarin", "digits", code=2)
    assert "No such command 'tarin'" in result.stderr


def test_every_command_is_summarised(invoke):
    for name in COMMANDS:
        assert invoke(name, "--help").output.startswith(f"Usage: program {name}")
