"""Metrics, and tables of made-up results: means, paired differences, grids, published figures."""

import re

import numpy as np
import pytest
from sklearn.metrics import log_loss

from pipelines.data import Data
from pipelines.experiment import FINAL
from pipelines.metrics import Predictions, of_record, reject_curves
from pipelines.pictures import draw
from pipelines.table import layout, small_table, tabulate, tidy


def results_of(experiment, value):
    """Return a result for each cell; error and NLPP are those of a function of the cell."""
    found = {}
    for cell in experiment.cells:
        error, nlpp = value(cell)
        figures = {"test error %": error, "test NLPP": nlpp}
        curve = [{"n_active": n, "test error %": error + 20 - n} for n in (10, 20)]
        found[cell.key] = {"figures": figures, "curve": curve}
    return found


def lines_of(experiment, results):
    """Return the lines of the table by what they are about."""
    table = tabulate(experiment, tidy(experiment, results))
    return {
        (line.data, line.method, line.n_active, line.metric): line
        for line in table.itertuples(index=False)
    }


def test_means_over_seeds_beside_published_figures(work):
    experiment = work().experiment
    results = results_of(experiment, lambda cell: (float(cell.seed), 1.0))
    lines = lines_of(experiment, results)
    line = lines["toy", "informative", FINAL, "test error %"]
    assert (line.ours, line.seeds, line.value, line.where) == (5.5, 2, 3.5, "table 9")
    assert line.sd == pytest.approx(np.std([5, 6], ddof=1))
    assert line.difference == 2.0
    assert line.difference_in_se == pytest.approx(2.0 / (line.sd / np.sqrt(2)))
    assert (line.goal, line.met) == ("≤ 100", True)
    early = lines["toy", "random", 10, "test error %"]
    assert (early.ours, early.value, early.below) == (15.5, 50.0, True)
    text = small_table(experiment, results, tabulate(experiment, tidy(experiment, results)))
    assert re.search("^toy,random,10,test error %,15.5,.*,< 50,", text, re.M)
    assert lines["toy", "random", FINAL, "test error %"].met is False
    assert lines["toy", "random", 20, "test error %"].ours == 5.5  # that of the finished model
    assert np.isnan(lines["toy", "neighbours", 20, "test NLPP less baseline"].ours)


def test_differences_from_the_baseline_are_paired(work):
    experiment = work(("table.n_active = [10, 20]", "")).experiment
    results = results_of(
        experiment, lambda cell: (8.0, 10.0 * cell.seed + (cell.method == "informative"))
    )
    del results[experiment.cells[-1].key]
    line = lines_of(experiment, results)["toy", "informative", FINAL, "test NLPP less baseline"]
    assert (line.ours, line.sd) == (1.0, 0.0)  # the seeds themselves differ by ten
    frame = tidy(experiment, results)
    ratios = frame[frame["metric"] == "test NLPP / baseline"]["value"]
    assert sorted(ratios) == pytest.approx([61 / 60, 61 / 60, 51 / 50, 51 / 50])  # 20 and all rows


def test_layout_has_ours_paper_and_goal_beside_each_other(work):
    experiment = work().experiment
    nothing = layout(tabulate(experiment, tidy(experiment, {})))
    assert set(nothing["test error %", "ours"]) == {"incomplete"}
    results = results_of(experiment, lambda cell: (float(cell.seed), 1.0))
    shown = layout(tabulate(experiment, tidy(experiment, results)))
    of_errors = [("test error %", each) for each in ("ours", "paper", "goal")]
    assert list(shown.columns) == [*of_errors, ("test NLPP less baseline", "ours")]
    assert shown.index.names == ["method", "n_active"]
    assert shown.loc[("informative", "all"), ("test error %", "ours")] == "5.50 ± 0.707"
    assert shown.loc[("informative", "all"), ("test error %", "goal")] == "≤ 100, met"
    assert shown.loc[("random", 10), ("test error %", "paper")] == "< 50"
    assert shown.loc[("random", "all"), ("test error %", "goal")].endswith("missed")


GRID = """
title = "Grid"
seeds = 2
data.toy = {}
grid.log_length_scale = [0.0, 2.0, 3]
grid.log_deviation = [0.0, 1.0, 2]
grid.by = "test NLPP"
grid.pictures = ["test NLPP"]
methods.laplace = { method = "laplace", baseline = "ep" }
methods.ep = { method = "ep" }
table.columns = [
  "highest test NLPP",
  "log length scale there",
  "test error % there",
  "least test error %",
  "test NLPP less baseline, root mean square",
]
"""


def test_best_kernels_of_a_grid(work):
    made = work(text=GRID)

    def value(cell):
        log_l, log_s = cell.point.values()
        nlpp = 5.0 - (log_l - 1.0) ** 2 + cell.seed + 3.0 * (cell.method == "laplace")
        return 10.0 * log_l + log_s, nlpp + log_s

    results = results_of(made.experiment, value)
    for result in results.values():
        result["curve"] = []
    frame = tidy(made.experiment, results)
    lines = lines_of(made.experiment, results)
    found = {name[-1]: line.ours for name, line in lines.items() if name[1] == "laplace"}
    assert list(found.values()) == pytest.approx([9.5, 1.0, 11.0, 0.0, 3.0])
    assert lines["toy", "ep", FINAL, "highest test NLPP"].ours == pytest.approx(6.5)
    del results[made.experiment.cells[0].key]
    table = tabulate(made.experiment, tidy(made.experiment, results))
    assert table.groupby("method")["complete"].all().to_dict() == {"ep": True, "laplace": False}
    made.out.mkdir()
    pictures = draw(made, frame[frame["seed"] == 0])
    assert len(pictures) == 2
    assert all(path.stat().st_size > 5000 for path in pictures)


CLASSES = np.array(["a", "b", "c"])
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6], [0.9, 0.1, 0.0]])
Y = np.array(["a", "b", "b", "c", "a"])
DATA = Data("t", None, np.array(["a", "a", "b", "c"]), None, Y)


def test_metrics_of_probabilities_and_of_classes_without_them():
    with np.errstate(divide="ignore"):
        found = Predictions(CLASSES, P.argmax(axis=1), np.log(P)).figures(DATA)
    nlpp = log_loss(Y, P, labels=CLASSES)
    assert found["test error %"] == pytest.approx(20.0)
    assert found["test NLPP"] == pytest.approx(nlpp)
    assert found["test probability"] == pytest.approx(np.exp(-nlpp))
    assert found["test log likelihood, all rows"] == pytest.approx(-5 * nlpp)
    shares = np.array([0.5, 0.25, 0.25, 0.25, 0.5])
    own = P[np.arange(5), [0, 1, 1, 2, 0]]
    assert found["test information bits"] == pytest.approx(np.mean(np.log2(own) - np.log2(shares)))
    # the least certain row, the third, is wrong: without it nothing is
    assert found["test error %, 20% rejected"] == 0.0
    assert found["test error %, 10% rejected"] == pytest.approx(20.0)
    found = Predictions(CLASSES, np.array([0, 0, 1, 2, 1]), None).figures(DATA)
    assert found["test error %"] == pytest.approx(40.0)
    assert {name.split("%")[0] for name in found} == {"test error "}


def test_rows_are_rejected_by_their_certainty():
    certainty = np.array([3.0, 1.0, 2.0, 2.0])
    rows = Predictions(CLASSES, np.array([0, 1, 0, 2]), np.log(P[:4] + 1e-9), certainty).rows(
        Data("t", None, DATA.y_train, None, Y[:4])
    )
    curves = reject_curves(rows)
    rejected, error = curves["test error %"]
    np.testing.assert_allclose(rejected, [0.0, 0.25, 0.75])
    np.testing.assert_allclose(error, [25.0, 100 / 3, 0.0])
    assert curves["test information bits"][1][0] == pytest.approx(rows["information"].mean())


def test_records_of_a_learning_curve():
    record = {"n_active": 10, "seconds": 2.0, "heldout_error": 0.1, "heldout_nlpp": 0.5}
    found = of_record({**record, "heldout_mse": None})
    assert found["ms an inclusion"] == pytest.approx(200.0)
    assert found["test error %"] == pytest.approx(10.0)
    assert found["test log likelihood, uncalibrated"] == -0.5
    assert "test MSE" not in found
