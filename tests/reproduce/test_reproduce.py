import csv
import json
import math
import statistics
import sys

import pytest
from click.testing import CliRunner

from sparsegp.checkpoint import RunLock
from sparsegp.cli.reproduce import command
from sparsegp.errors import SettingsError, StoreError
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.table import Row, as_text, number, tabulate
from tests.processes import ROOT


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_table_stands_beside_the_paper(small, out):
    outcome = reproduce(small(), out=out)
    assert len(outcome.run) == 4
    assert not (out / "runs").exists()
    cells = [json.loads((out / f"cells/informative-{s}.json").read_text()) for s in (0, 1)]
    values = [100 * cell["result"]["model"]["error"] for cell in cells]
    table = read_csv(out / "table.csv")
    row = next(r for r in table if r["variant"] == "informative" and r["published"] == "3.5")
    assert (row["rows"], row["what"], row["where"]) == ("20", "test error %", "table 9")
    assert float(row["ours"]) == pytest.approx(statistics.fmean(values))
    assert float(row["sd"]) == pytest.approx(statistics.stdev(values))
    assert float(row["se"]) == pytest.approx(statistics.stdev(values) / math.sqrt(2))
    assert float(row["difference"]) == pytest.approx(statistics.fmean(values) - 3.5)
    assert row["goal_met"] == "True"
    assert len(table) == 8
    text = "\n".join(outcome.lines())
    assert text.startswith("Small. Nobody (1900)\n")
    assert "table 9" in text
    assert "< 50" in text
    assert "<= 100, met" in text
    assert "4 of 4 cells finished, 4 of them run now" in text


def test_curves_as_table_and_picture(small, out):
    pytest.importorskip("matplotlib")
    reproduce(small(), out=out)
    records = read_csv(out / "curves.csv")
    assert [r["n_active"] for r in records[:4]] == ["5", "10", "15", "20"]
    assert len(records) == 16
    assert {r["variant"] for r in records} == {"informative", "random"}
    assert all(0 <= float(r["heldout_error"]) <= 1 for r in records)
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "curves-test-nlpp.png").exists()


def test_without_matplotlib_one_line_says_so(small, out, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    outcome = reproduce(small(), out=out)
    assert outcome.lines()[-1].startswith("no picture: pictures need matplotlib; install it by")
    assert (out / "curves.csv").exists()


def test_finished_cells_are_not_run_again_unless_changed(small, out):
    reproduce(small(), out=out)
    assert reproduce(small(), out=out).run == []
    changed = small(('criterion = "random"', 'criterion = "random"\nn_nodes = 8'))
    outcome = reproduce(changed, out=out)
    assert outcome.run == ["random-0", "random-1"]
    assert len(outcome.finished) == 4


def test_cells_of_former_defaults_are_run_again(small, out):
    reproduce(small(), out=out)
    place = out / "cells/random-1.json"
    stored = json.loads(place.read_text())
    stored["settings"]["n_nodes"] += 1
    place.write_text(json.dumps(stored))
    assert reproduce(small(), out=out).run == ["random-1"]
    stored = json.loads(place.read_text())
    del stored["settings"]["n_nodes"]  # written by a version without this setting
    stored["settings"]["of old"] = 1
    place.write_text(json.dumps(stored))
    assert reproduce(small(), out=out).run == []


def test_damaged_results_are_made_again(small, out):
    reproduce(small(), out=out)
    place = out / "cells/random-1.json"
    before = json.loads(place.read_text())
    place.write_text(place.read_text()[:100])
    assert reproduce(small(), out=out).run == ["random-1"]
    after = json.loads(place.read_text())
    assert after["result"]["model"] == before["result"]["model"]


def test_only_matching_cells_are_run(small, out):
    outcome = reproduce(small(), out=out, cells="*-1")
    assert outcome.run == ["informative-1", "random-1"]
    assert "2 of 4 cells finished" in outcome.lines()[-1]
    assert reproduce(small(), out=out).run == ["informative-0", "random-0"]
    with pytest.raises(SettingsError, match=r"no cell of .* matches 'x'; cells: informative-0, "):
        reproduce(small(), out=out, cells="x")


def test_what_was_not_run_is_shown_as_missing(small, out):
    outcome = reproduce(small(), out=out, cells="random-*")
    row = next(row for row in outcome.rows if row.variant == "informative")
    assert (row.ours, row.sd, row.difference, row.goal_met) == (None, None, None, None)
    assert "-" in as_text([row])[1].split()


def test_results_folder_of_another_process_is_refused(small, out):
    lock = RunLock(out / "lock")
    lock.acquire()
    with pytest.raises(StoreError, match="is held by"):
        reproduce(small(), out=out)
    lock.release()


def test_unwritable_results_are_one_error(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        reproduce(small(), out=tmp_path / "file" / "out")


def test_default_place_of_results(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = small(("seeds = [0, 1]\ndata_seeds = [5, 6]", ""))
    outcome = reproduce(path, cells="random-0")
    assert (tmp_path / "results/small/cells/random-0.json").exists()
    assert outcome.pipeline.cells[0].data_seed == 0


def test_catalog_data_and_single_cell(tmp_path, out):
    path = tmp_path / "digits.toml"
    path.write_text(
        'title = "Digits"\n[data]\nname = "digits"\n[train]\nn_active = 30\n[[variants]]\n'
        'name = "one"\n[[published]]\nwhat = "test error %"\nvalue = 2\nwhere = "table 1"\n'
    )
    outcome = reproduce(path, out=out)
    assert [(row.what, row.rows) for row in outcome.rows] == [
        ("test error %", 30),
        ("test NLPP", 30),
    ]
    assert outcome.rows[0].sd is None
    assert outcome.rows[0].published.value == 2


def test_figures_before_the_end_come_from_the_curve(small):
    pipeline = read_pipeline(small())
    result = {
        "model": {"error": 0.5, "nlpp": 1.0, "brier": 0.4, "ece": 0.1},
        "curve": [
            {"n_active": 10, "heldout_error": 0.25, "heldout_nlpp": 2.0, "train_error": 0.1},
            {"n_active": 20, "heldout_error": 0.2, "train_error": 0.3},
        ],
    }
    figure = pipeline.kind.figure
    assert figure(result, "test error %", 10) == 25.0
    assert figure(result, "test error %", 20) == 50.0
    assert figure(result, "training error %", 20) == 30.0
    assert figure(result, "test probability", 10) == pytest.approx(math.exp(-2))
    assert figure(result, "test ECE", 10) is None
    assert figure(result, "test ECE", 20) == 0.1
    rows = tabulate(pipeline, {"random-0": result})
    assert next(r for r in rows if r.variant == "random" and r.rows == 10).values == (25.0,)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0312, "0.0312"), (0.92, "0.920"), (-1.5, "-1.50"), (0.1164, "0.116"), (1023.4, "1023")],
)
def test_numbers(value, text):
    assert number(value) == text


def test_equal_values_have_no_distance_in_standard_errors():
    assert Row("a", 1, "test error %", (1.0, 1.0)).difference_in_se is None


def test_command_prints_the_table_or_json(small, out):
    path = small()
    runner = CliRunner()
    shown = runner.invoke(command, [str(path), "--out", str(out), "--cells", "random-0"])
    assert shown.exit_code == 0, shown.output
    assert "1 of 4 cells finished, 1 of them run now" in shown.stdout
    assert "small 20/20 rows" in shown.stderr
    found = runner.invoke(command, [str(path), "--out", str(out), "--cells", "random-0", "--json"])
    answer = json.loads(found.stdout.splitlines()[-1])
    assert answer["finished"] == ["random-0"]
    assert answer["run"] == []
    assert len(answer["table"]) == 8


def test_cells_on_worker_processes_give_the_same_figures(small, tmp_path):
    here = reproduce(small(), out=tmp_path / "here", cells="informative-0")
    there = reproduce(small(), out=tmp_path / "there", cells="informative-0", workers=2)
    for one, other in zip(here.rows, there.rows, strict=True):
        assert one.values == other.values
    cells = [
        json.loads((tmp_path / p / "cells/informative-0.json").read_text())
        for p in ("here", "there")
    ]
    assert cells[0]["result"]["model"] == cells[1]["result"]["model"]


def test_measurements_stay_in_this_process(tmp_path):
    with pytest.raises(SettingsError, match="kind=rounds run in threads of this process"):
        reproduce(ROOT / "pipelines/benchmark/rounds.toml", out=tmp_path, workers=2)
