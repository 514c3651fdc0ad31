"""Imports go one way: mathematics knows nothing of blocks, blocks nothing of files or clusters."""

import ast
from pathlib import Path

import pytest

import sparsegp

ROOT = Path(sparsegp.__file__).parent

LAYERS = [
    ["errors", "types"],
    ["registry"],
    ["math"],
    ["kernels"],
    ["likelihoods"],
    ["selection"],
    ["ivm"],
    ["posterior", "learning"],
    ["dense"],
    ["data"],
    ["checkpoint"],
    ["execution"],
    ["settings", "interrupt"],
    ["model", "run_directory"],
    ["estimate"],
    ["augmentation", "training"],
    ["report"],
    ["tuning"],
    ["estimator"],
    ["reproduce"],
    ["cli"],
    ["__init__", "__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

OWNERS = {
    "dask": {"data", "execution", "training", "model", "reproduce"},
    "distributed": {"execution"},
    "fsspec": {"data"},
    "zarr": {"checkpoint", "data", "cli"},
    "click": {"cli"},
    "rich": {"report"},
    "matplotlib": {"report"},
    "torch": {"reproduce"},
    "gpytorch": {"reproduce"},
}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            if node.module == "sparsegp":
                names |= {f"sparsegp.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_from_layers_above(path: Path) -> None:
    own = part_of(path)
    assert own in RANK, f"{own} has no place in the layers"
    for name in imported(path):
        if name.startswith("sparsegp."):
            other = name.split(".")[1]
            if other in RANK and other != own:
                assert RANK[other] < RANK[own], f"{own} imports {other}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_libraries_stay_with_their_owners(path: Path) -> None:
    own = part_of(path)
    for name in imported(path):
        library = name.split(".")[0]
        if library in OWNERS:
            assert own in OWNERS[library], f"{own} imports {library}"


def test_every_module_says_what_it_is_for() -> None:
    for path in modules():
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"
