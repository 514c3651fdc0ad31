"""Imports go one way: mathematics knows nothing of blocks, blocks nothing of files or clusters."""

import ast
import re
import sys
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

import sparsegp
from tests.processes import run_python

ROOT = Path(sparsegp.__file__).parent
PROJECT = ROOT.parent / "pyproject.toml"

LAYERS = (
    "blas errors types < fields lists progress registry state < texts < math < kernels "
    "< likelihoods < ivm < posterior < learning < dense < data < store < runtime "
    "< settings interrupt < model < memory < free_memory < report < fit < estimator < cli "
    "< __init__ __main__"
)
RANK = {name: rank for rank, names in enumerate(LAYERS.split("<")) for name in names.split()}

OWNERS = {
    "dask": {"data", "runtime", "fit", "model", "cli"},
    "distributed": {"runtime", "data"},  # in data for its memory limit alone
    "fsspec": {"data"},
    "zarr": {"data", "cli"},
    "click": {"cli"},
    "rich": {"report"},
    "matplotlib": {"report"},
    "pandas": {"data"},
    "torch": set(),
    "pipelines": set(),
}
DISTRIBUTIONS = {"yaml": "pyyaml", "sklearn": "scikit-learn"}
"""Where the name to import is not that of the distribution."""

STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What may hold imports; there are many more expressions."""


def modules():
    return sorted(ROOT.rglob("*.py"))


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imported(path):
    names, nodes = set(), [ast.parse(path.read_text(encoding="utf-8"))]
    for node in nodes:
        nodes += [each for each in ast.iter_child_nodes(node) if isinstance(each, STATEMENTS)]
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            if node.module == "sparsegp":
                names |= {f"sparsegp.{alias.name}" for alias in node.names}
    return names


def is_allowed(own, name):
    """Whether a part may import a module: of itself, of a layer above, or of a library it owns."""
    library, _, module = name.partition(".")
    other = module.partition(".")[0]
    if library == "sparsegp" and other in RANK:
        return other == own or RANK[other] < RANK[own]
    return own in OWNERS.get(library, RANK)


def test_imports_only_from_layers_above_and_libraries_by_their_owners():
    assert {part_of(path) for path in modules()} <= RANK.keys()
    pairs = ((path, name) for path in modules() for name in imported(path))
    assert not [(path, name) for path, name in pairs if not is_allowed(part_of(path), name)]


@pytest.mark.skipif(not PROJECT.exists(), reason="an installed package has no pyproject.toml")
@pytest.mark.parametrize("folder", ["sparsegp", "tests", "pipelines"])
def test_every_import_is_declared(folder):
    """The package needs no more than its dependencies and extras; tests those of tests too."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [more for name, more in extras.items() if folder == "tests" or name != "test"]
    lines = chain(project["dependencies"], *wanted)
    declared = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in lines}
    names = chain.from_iterable(map(imported, (PROJECT.parent / folder).rglob("*.py")))
    known = {*sys.stdlib_module_names, "sparsegp", "tests", "pipelines"}
    others = {name.split(".")[0] for name in names} - known
    needed = {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in others}
    assert needed <= declared, f"not in pyproject.toml: {sorted(needed - declared)}"


HELP = (
    "from click.testing import CliRunner; from sparsegp.cli.program import program as p; "
    "assert not any(CliRunner().invoke(p, [name, '--help']).exit_code for name in p.commands)"
)
LIGHT = {
    "import sparsegp.settings": "numpy scipy dask sklearn",
    HELP: "numpy scipy dask distributed zarr sklearn rich threadpoolctl",
    "import sparsegp.data": "dask pandas sklearn zarr pyarrow scipy fsspec",
    "import numpy as np, sparsegp.report as r; r.evaluate(np.log([[1.0]]), [0], [0])": (
        "matplotlib rich sklearn"
    ),
    "from sparsegp.free_memory import free_memory; assert free_memory().shared > 0": "distributed",
    "from sparsegp.runtime import open_runtime; open_runtime('threads=2').__enter__()": (
        "dask distributed yaml"
    ),
}
"""What may be done, one after the other, before modules are imported that take long."""


def test_what_is_slow_to_import_waits_until_it_is_needed():
    script = "import sys\n"
    for code, heavy in LIGHT.items():
        script += f"{code}\nassert not {set(heavy.split())} & set(sys.modules), {code!r}\n"
    run_python("-c", script)


def test_public_names_are_listed_before_they_are_used():
    assert dir(sparsegp) == sorted(sparsegp.__all__)
    assert {"train", "load"} <= {*dir(sparsegp)}
