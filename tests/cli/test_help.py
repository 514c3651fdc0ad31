import re
import subprocess
import sys

import pytest

from sparsegp.cli.options import settings_of
from sparsegp.cli.program import program
from sparsegp.cli.train import train
from sparsegp.data.catalog import CATALOG
from sparsegp.dense import METHODS
from sparsegp.fit.tune import MAX_TRIALS
from sparsegp.settings import DenseSettings, TrainSettings, declared

SCRIPT = """
import sys
from sparsegp.cli import main
for command in [[], *map(lambda name: [name], sys.argv[1:])]:
    sys.argv = ["sparsegp", *command, "--help"]
    try: main()
    except SystemExit as end: assert not end.code
heavy = {"numpy", "scipy", "dask", "distributed", "zarr", "sklearn", "rich", "threadpoolctl"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_help_imports_nothing_heavy(environment):
    code = [sys.executable, "-c", SCRIPT, *program.commands]
    done = subprocess.run(code, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") == 1 + len(program.commands)


@pytest.mark.parametrize("owner", [TrainSettings, DenseSettings])
def test_every_setting_has_an_option(owner):
    options = {parameter.name: parameter for parameter in train.params}
    values = train.make_context("train", ["digits"]).params
    for name, setting in declared(owner).items():
        assert values[name] is None  # left to the API
        if setting.kind is not bool and owner is TrainSettings:
            assert setting.default is None or str(setting.default) in options[name].help
    assert f"[{MAX_TRIALS}]" in options["max_trials"].help


def test_settings_are_spelt_as_options(invoke):
    shown = " ".join(invoke("train", "--help").output.split())
    for words in (
        "With --sites moments: ",
        "With --stub-entries: ",
        "with --active-per-class.",
        *METHODS,
    ):
        assert words in shown
    assert not re.search(rf"({'|'.join(declared(TrainSettings))})=|With \w+:|Do not", shown)
    assert all(f"`{name}`" in shown for name in CATALOG)


def test_program(invoke):
    shown = invoke("--help").output
    for name, command in program.commands.items():
        assert f"  {name} " in shown
        assert command.get_short_help_str(35).removesuffix("...") in shown
    assert "0.1.0" in invoke("--version").output


@pytest.mark.parametrize(
    ("size", "precision", "entries"),
    [("4 gb", "float64", 5 * 10**8), ("1.5MB", "float32", 375_000), ("2GiB", "float64", 2**28)],
)
def test_memory_of_stubs_is_a_number_of_entries(size, precision, entries):
    found = settings_of({"stub_memory": size, "precision": precision})
    assert found == {"stub_entries": entries, "precision": precision}
