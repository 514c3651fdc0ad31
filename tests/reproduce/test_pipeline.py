import pytest

from sparsegp.errors import SettingsError
from sparsegp.reproduce import read_pipeline
from sparsegp.reproduce.kinds import KINDS


def test_all_shipped_pipelines_are_valid(shipped):
    for path in shipped:
        pipeline = read_pipeline(path)
        assert pipeline.title
        assert pipeline.cells
        for claim in pipeline.published:
            assert claim.where, f"{path}: a published figure has its place in the paper"
        assert list(pipeline.tabulated)


def test_shipped_pipelines_cover_all_kinds(shipped):
    assert {read_pipeline(path).kind_name for path in shipped} == set(KINDS)


def test_cells_are_variants_times_seeds(small):
    pipeline = read_pipeline(small())
    assert [cell.name for cell in pipeline.cells] == [
        "informative-0",
        "informative-1",
        "random-0",
        "random-1",
    ]
    last = pipeline.cells[-1]
    assert (last.settings.seed, last.data_seed, last.settings.criterion) == (1, 6, "random")
    assert last.settings.n_active == 20
    assert len({cell.fingerprint for cell in pipeline.cells}) == 4


def test_fingerprint_depends_on_settings_and_data_alone(small):
    def digests(*replacements):
        return [cell.fingerprint for cell in read_pipeline(small(*replacements)).cells]

    before = digests()
    assert digests(('title = "Small"', 'title = "Other"'), ("value = 3.5", "value = 3")) == before
    assert digests(("scaling =", 'precision = "float32"\nscaling =')) == before
    changed = digests(('criterion = "random"', 'criterion = "random"\nn_nodes = 8'))
    assert changed[:2] == before[:2]
    assert not set(changed[2:]) & set(before)
    assert not set(digests(("n_test = 90", "n_test = 91"))) & set(before)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Small"', "", "title is missing; it is a text"),
        ('title = "Small"', "title = 3", "title must be a text, got 3"),
        ('title = "Small"', 'title = "Small"\ntile = 1', "tile is not known; known: data, "),
        ('title = "Small"', 'title = "Small"\nkind = "x"', "kind is 'x'; known: annealed, ben"),
        ('title = "Small"', "title = ", "is not valid TOML: Invalid value (at line 2, column 9)"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "seeds must be different numbers from 0 on, got [0"),
        ("seeds = [0, 1]", "seeds = []", "seeds must be different numbers from 0 on, got []"),
        ("seeds = [0, 1]", 'seeds = [0, "1"]', "seeds[1] must be a whole number, got '1'"),
        ("data_seeds = [5, 6]", "data_seeds = [5]", "data_seeds must be as many as seeds, 2, got"),
        (
            'name = "toy"',
            'name = "tox"',
            "data.name is 'tox'; known: digits, iris, nine-gaussians, toy",
        ),
        ("n_train = 120", "n_trian = 120", "data.n_trian is not known; known: n_test, n_train"),
        ("n_active = 20\n", "", "variants[0].n_active is missing, here and in train"),
        ("n_active = 20\n", "n_active = true\n", "train.n_active must be a whole number, got Tr"),
        ('scaling = "none"', "scale = 1", "train.scale is not known; known: "),
        ('scaling = "none"', 'scaling = "x"', "train and variants[0]: unknown scaling 'x'; known"),
        ('scaling = "none"', "seed = 3", "train.seed is not known"),
        ('kernel = "ard(0.3', 'kernel = "arb(0.3', "train and variants[0]: cannot read kernel"),
        ('name = "random"', 'name = "informative"', "variants[1].name must be small letters, "),
        ('name = "random"', 'name = "Random rows"', "digits and hyphens, and new, got 'Random r"),
        ('criterion = "random"', 'criterion = "rnd"', "variants[1]: unknown criterion 'rnd'"),
        ('["test error %",', '["error",', "report.what[0] is 'error'; known: test error %, test"),
        ("[10, 20]", "[12]", "report.n_active must be on the learning curve of informative (every"),
        ("n_active = 10\n", "n_active = 25\n", "up to 20), got 25"),
        ('where = "table 9"', "", "published[0].where is missing; it is a text"),
        ("value = 3.5", "", "published[0].value is missing; it is a number"),
        ("at_most = 100", 'at_most = "x"', "goals[0].at_most must be a number, got 'x'"),
        ('variant = "random"', 'variant = "x"', "published[1].variant is 'x'; known: informative"),
        ('variant = "random"', "", "published[1].variant is missing"),
    ],
)
def test_errors_name_file_and_key(small, old, new, message):
    path = small((old, new))
    with pytest.raises(SettingsError) as caught:
        read_pipeline(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the pipeline .*none.toml: No such file"):
        read_pipeline(tmp_path / "none.toml")


def test_variants_and_data_are_needed(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('title = "a"\n')
    with pytest.raises(SettingsError, match=r"a\.toml: data is missing; \[data\] has a name"):
        read_pipeline(path)
    path.write_text('title = "a"\n[data]\nname = "toy"\n')
    with pytest.raises(SettingsError, match="variants is missing; a pipeline has at least one"):
        read_pipeline(path)
    path.write_text('title = "a"\n[data.b]\nname = "toy"\n[[variants]]\nname = "v"\ndata = "c"\n')
    with pytest.raises(SettingsError, match=r"variants\[0\].data is 'c'; known: b"):
        read_pipeline(path)
