"""Progress on a real terminal, and elsewhere."""

import io
import re
import sys
import time
from types import SimpleNamespace

import pytest

from sparsegp.errors import SettingsError
from sparsegp.progress import Progress, Recorded
from sparsegp.report import TerminalProgress, progress, progress_for
from tests.processes import plain_environment, run_on_terminal, run_python

WORK = """
import sys, time, warnings
warnings.simplefilter("always")
from sparsegp.report import TerminalProgress
assert "rich" not in sys.modules
with TerminalProgress() as progress:
    progress.start(300, "rows", "select")
    for done in range(100, 301, 50):
        progress.update(done, train_error=0.0431, heldout_error=0.052)
        time.sleep(0.12 if sys.stderr.isatty() else 0.01)
        if done == 200:
            progress.message("a [bold]message[/bold]")
            warnings.warn("a warning")
print("result", "rich" in sys.modules)
"""
UNKNOWN = """
with TerminalProgress() as progress:
    progress.start(0, "rows", "next")
    progress.update(200, train_error=0.0431, heldout_error=0.052)
    time.sleep(0.3)
"""
FIGURES = "train error 0.0431, heldout error 0.052"
LAST = rf"select 300/300 rows in 0:00:\d+, {FIGURES}"


def written(shown):
    """Lines of a terminal without the codes between them, also those that were overwritten."""
    plain = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", shown)
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


def test_bar_on_a_terminal():
    status, output, shown = run_on_terminal("-c", WORK)
    assert (status, output) == (0, "result True\n")
    assert re.search(r"select .*━.*200/300.* rows .*0:00:0", shown)
    assert shown.count(FIGURES) > 2
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor must be visible"
    lines = written(shown)
    assert "a [bold]message[/bold]" in lines
    assert any(line.endswith("UserWarning: a warning") for line in lines)
    assert re.fullmatch(LAST, lines[-1])


@pytest.mark.slow
def test_at_80_columns():
    """Nothing is cut; a stage of unknown length has its time and no bar."""
    long = WORK.replace("train_error=0.0431, heldout_error=0.052", "minus_log_evidence=1234.5")
    _, _, shown = run_on_terminal("-c", f"{long}{UNKNOWN}", columns=80)
    known, unknown = re.sub(r"\x1b\[[?\d;]*m", "", shown).split("next ", maxsplit=1)
    assert re.search(r"━.* rows .*minus log evidence 1234.5", known)
    assert re.search(rf". 200 rows 0:00:0\d {FIGURES}", unknown)
    assert "━" not in unknown


def test_bar_is_taken_away_when_the_work_fails():
    code = WORK.replace('warnings.warn("a warning")', "raise KeyboardInterrupt")
    status, output, shown = run_on_terminal("-c", code, columns=30)
    assert status != 0
    assert output == ""
    assert "\x1b[?25h" in shown
    assert "select stopped at 200/300 rows after" in shown
    assert written(shown)[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("terminal", [True, False])
def test_where_no_bar_can_be_drawn(terminal):
    """Messages, and a line in the end."""
    if terminal:
        _, output, shown = run_on_terminal("-c", WORK, term="dumb")
    else:
        done = run_python("-c", WORK, env=plain_environment())
        output, shown = done.stdout, done.stderr
    assert output == f"result {terminal}\n"
    assert "\x1b" not in shown
    first, last = [line for line in shown.splitlines() if "warn" not in line]
    assert first == "a [bold]message[/bold]"
    assert re.fullmatch(LAST, last)


def test_stages():
    stream = io.StringIO()
    with TerminalProgress(stream) as progress:
        progress.update(3)
        progress.start(10, "steps", "search")
        progress.update(1, heldout_nlpp=0.2, log_evidence=-12345.6)
        progress.update(2, heldout_nlpp=0.1, seconds=2e-5)
        progress.start(0, "rounds", "next")
        progress.update(7)
        progress.finish()
        progress.finish()
        progress.start(3, "rows", "none")
    first, second, third = stream.getvalue().splitlines()
    figures = "heldout nlpp 0.1, log evidence -12346, seconds 2e-05"
    assert re.fullmatch(rf"search stopped at 2/10 steps after 0:00:\d+, {figures}", first)
    assert re.fullmatch(r"next 7 rounds in 0:00:\d+", second)
    assert re.fullmatch(r"none stopped at 0/3 rows after 0:00:\d+", third)


@pytest.mark.parametrize("quiet", [True, False])
def test_a_stage_lasts_until_another_begins(quiet, capsys):
    progress = TerminalProgress(quiet=quiet)
    progress.begin("prepare")
    progress.start(3, "rows", "select")
    time.sleep(0.01)
    progress.finish()
    progress.message("hel\x1blo")
    progress.begin("")
    assert progress.seconds.keys() == {"prepare", "select"}
    assert progress.seconds["select"] >= 0.01
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("hel\\x1blo\n")
    assert ("select" in err) is not quiet


def test_a_long_stage_without_a_bar_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    stream = io.StringIO()
    with TerminalProgress(stream) as shown:
        shown.start(3, "trials", "tune")
        shown.update(1, nlpp=0.5)
        while "so far" not in stream.getvalue():
            time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert re.fullmatch(r"tune [01]/3 trials so far, 0:00:\d+(, nlpp 0.5)?", lines[0])
    assert lines[-1].startswith("tune stopped at 1/3 trials after")


def test_bar_in_a_notebook(monkeypatch, capsys):
    """The display functions of IPython, as its kernel has them, are handed what it shows."""
    cells = []

    def display(content, display_id):
        cells.append([content])
        return SimpleNamespace(update=cells[-1].append)

    shell = SimpleNamespace(kernel=object())
    display_of = SimpleNamespace(HTML=str, display=display)
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=display_of)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(progress, "MIN_SECONDS", 0.0)
    with progress_for(None, verbose=True) as shown:
        shown.start(300, "rows", "select")
        shown.update(100, error=0.5)
        shown.message("<a message>")
        shown.update(300, error=0.25)
    (cell,) = cells
    assert cell[2] == 'select <progress value="100" max="300"></progress> 100/300 rows error 0.5'
    assert re.fullmatch(r"select 300/300 rows in 0:00:0\d, error 0.25", cell[-1])
    assert capsys.readouterr() == ("<a message>\n", "")


def test_progress_or_verbose():
    given = Progress()
    assert progress_for(given, verbose=False) is given
    with pytest.raises(SettingsError, match="only one of"):
        progress_for(given, verbose=True)


def test_recorded():
    records, stream = [], io.StringIO()
    progress = Recorded(TerminalProgress(stream))
    progress.record = records.append
    progress.message("hello")
    progress.start(10, "rows", "select")
    progress.update(1, error=0.5)
    progress.update(2)
    progress.finish()
    known = {"stage": "select", "total": 10, "unit": "rows", "figures": {"error": 0.5}, "time": 0}
    assert [{**each, "time": 0} for each in records] == [{**known, "done": n} for n in (1, 2)]
    assert stream.getvalue().startswith("hello\nselect stopped at 2/10 rows")
