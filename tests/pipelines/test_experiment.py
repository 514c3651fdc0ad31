"""What pipeline files say, and what is wrong with some."""

import math
import re
from pathlib import Path

import pytest

import pipelines
from pipelines.experiment import read_experiment
from pipelines.ours import filled
from sparsegp.errors import SettingsError
from sparsegp.kernels import parse

SHIPPED = sorted(Path(pipelines.__file__).parent.glob("*/*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_pipelines_can_be_read(path):
    experiment = read_experiment(path)
    names = [cell.name for cell in experiment.cells]
    assert len(names) == len(set(names)) > 0
    assert len({cell.key for cell in experiment.cells}) == len(names)
    assert not experiment.wanted.duplicated().any()
    assert ("(" in experiment.heading) >= path.parent.name[-4:].isdigit()  # the paper is named


def test_the_readme_names_them_all():
    text = (Path(pipelines.__file__).parent / "README.md").read_text()
    cells = " ".join(re.findall(r"^\| (`.*?`) \|", text, re.M))
    named = set(re.findall(r"[\w-]+\.toml", cells))
    folders = set(re.findall(r"`([\w-]+)/\*\.toml`", text))
    for path in SHIPPED:
        assert path.name in named or path.parent.name in folders, path


def test_cells_of_data_methods_and_seeds(written):
    text = """
title = "Two data"
seeds = 2
settings.n_active = 10
[data]
one = { source = "toy", n_train = 50, settings = { scaling = "none" } }
two = { source = "iris", fold = { folds = 5 } }
[methods.plain]
on.two = { n_active = 20 }
[methods.other]
data = ["two"]
estimator = "sklearn.svm.SVC"
parameters = { C = 2 }
"""
    experiment = read_experiment(written(text=text))
    assert [cell.name for cell in experiment.cells] == [
        f"{name}-{seed}" for name in ("one-plain", "two-plain", "two-other") for seed in (0, 1)
    ]
    one, two, other = (experiment.cells[i] for i in (0, 2, 5))
    assert one.settings == {"n_active": 10, "scaling": "none", "seed": 0}
    assert two.settings == {"n_active": 20, "seed": 0}
    assert other.spec == {"estimator": "sklearn.svm.SVC", "parameters": {"C": 2}}
    assert [cell.is_small for cell in (one, two, other)] == [False, False, True]
    assert two.source.load(None, 0).X_test.shape == (30, 4)


def test_grid_of_kernels(written):
    text = """
title = "Grid"
data.toy = {}
grid.log_length_scale = [0.0, 1.0, 2]
grid.log_deviation = [-1.0, 1.0, 3]
grid.kernel = "{variance}*ard({length_scale}, 1e9, ...)"
methods.laplace = { method = "laplace" }
"""
    cells = read_experiment(written(text=text)).cells
    assert len(cells) == len({cell.name for cell in cells}) == 6
    kernel = parse(filled(cells[-1].spec["kernel"], 3))
    assert kernel.parameters() == pytest.approx([2.0, 1.0, 9 * math.log(10), 9 * math.log(10)])
    assert filled("2*ard(0.5, 1, ...) + ard(3, 7)", 4) == "2*ard(0.5, 1, 1, 1) + ard(3, 7)"


def test_values_that_are_changed(written):
    changes = ["seeds=1", "settings.n_active=7", "methods.*.criterion=entropy", "title=Other"]
    experiment = read_experiment(written(), changes)
    names = [cell.name for cell in experiment.cells]
    assert names == ["toy-informative-0", "toy-random-0", "toy-neighbours-0"]
    assert [cell.spec.get("criterion") for cell in experiment.cells] == [None, "entropy", None]
    assert experiment.cells[0].spec["n_active"] == 7
    assert experiment.heading.startswith("Other")
    for wrong in ("seeds", "methods.*.nothing=1", "title.deep=1", "methods.none.panel=2"):
        with pytest.raises(SettingsError, match="--set"):
            read_experiment(written(), [wrong])


def test_key_of_a_cell_says_what_its_result_depends_on(written):
    def key(*changes):
        return read_experiment(written(), list(changes)).cells[0].key

    same = ["title=Other", "methods.random.panel=2", "table.n_active=[20]", "picture=''"]
    assert key() == key(*same)
    different = ["settings.n_active=19", "data.toy.n_train=121", "seeds=[4, 6]", "picture=reject"]
    assert len({key(), *(key(change) for change in different)}) == 5


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('title = "Small"', "", "title"),
        ('title = "Small"', 'title = "Small"\nkind = "train"', "no key 'kind'"),
        ("data.toy = {", "data.toys = {", "toys"),
        ("n_train = 120", "n_trane = 120", "data.toy: .*n_trane"),
        ("n_test = 90", "n_test = 90, fold = {}", "data.toy: .*folds"),
        ("n_active = 20", "n_activ = 20", "methods.informative: .*n_activ"),
        ('criterion = "random"', 'criterion = "chance"', "methods.random: .*chance"),
        ('"random" }\nmethods.random', '"none" }\nmethods.random', "none"),
        ('Neighbour" }', 'Neighbour", C = 3 }', "methods.neighbours: C"),
        ("table.columns", "table.column", "column"),
        ('method = "random", metric', 'method = "chance", metric', "chance"),
        ("at_most = 100", "at_least = 100", "at_least"),
        ("seeds = [5, 6]", "seeds = [5, 6", "not valid TOML"),
        ("seeds = [5, 6]", f"seeds = {'9' * 5000}", "not valid TOML"),
        ("seeds = [5, 6]", f"seeds = {'[' * 10**5}", "not valid TOML"),
        ("picture", 'grid = { by = "log evidence" }\npicture', "log_length_scale"),
    ],
)
def test_errors_name_file_and_key(written, old, new, named):
    path = written((old, new))
    with pytest.raises(SettingsError, match=f"small.toml.*{named}"):
        read_experiment(path)
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        read_experiment(path.with_name("missing.toml"))
