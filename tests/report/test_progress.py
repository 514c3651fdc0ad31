"""Progress on a real terminal, elsewhere, and its arithmetic under a clock of ours."""

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import pytest

from sparsegp.report import NullProgress, Progress
from sparsegp.report.pace import Pace, duration, speed
from sparsegp.report.progress import figure

WORK = """
import logging, sys, time, warnings
handler = logging.StreamHandler()
logging.getLogger("early").addHandler(handler)
warnings.simplefilter("always")
from sparsegp.report import Progress
assert "rich" not in sys.modules
with Progress() as progress:
    progress.start(300, "rows", "select")
    for done in range(100, 301, 50):
        progress.update(done, train_error=0.0431, heldout_error=0.052)
        time.sleep(0.3 if sys.stderr.isatty() else 0.01)
        if done == 200:
            progress.message("a [bold]message[/bold]")
            warnings.warn("a warning")
            logging.getLogger("early").warning("a log line")
print("result", "rich" in sys.modules, handler.stream is sys.__stderr__ is sys.stderr)
"""


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def run_on_terminal(code, columns=100, **environment):
    """Run Python with standard error on a pseudo-terminal; return stdout and what was shown."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**plain_environment(), "TERM": "xterm", **environment},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # The terminal is closed when the child ends.
        pass
    finally:
        os.close(ours)
    with child:
        output = child.stdout.read().decode()
    return child.returncode, output, shown.decode()


def plain_environment():
    names = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    return {name: value for name, value in os.environ.items() if name not in names}


def on_screen(shown):
    """Lines of a terminal after all was written: enough of it for a bar at the foot."""
    lines, row, column = [""], 0, 0
    for code, text in re.findall(r"(\x1b\[[?\d;]*[A-Za-z]|\r|\n)|([^\x1b\r\n]+)", shown):
        if code == "\n":
            row += 1
            lines += [""] * (row >= len(lines))
        elif code == "\r":
            column = 0
        elif code.endswith("A"):
            row -= int(code[2:-1])
        elif code.endswith("K"):
            lines[row] = ""
        elif text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in lines if line.strip()]


def test_bar_on_a_terminal():
    status, output, shown = run_on_terminal(WORK)
    assert status == 0
    assert output == "result True True\n"
    assert re.search(r"select .*━.* 200/300 rows, [\d.]+/s, \d+ s left", shown)
    assert shown.count("training error 0.0431, held-out error 0.0520") > 2
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor must be visible"
    lines = on_screen(shown)
    assert [line for line in lines if "warn" not in line] == [
        "a [bold]message[/bold]",
        "a log line",
        lines[-1],
    ]
    assert any(line.endswith("UserWarning: a warning") for line in lines)
    assert re.fullmatch(
        r"select 300/300 rows in \d+ s, [\d.]+/s, training error 0.0431, held-out error 0.0520",
        lines[-1],
    )


def test_bar_is_taken_away_when_the_work_fails():
    code = WORK.replace('warnings.warn("a warning")', "raise KeyboardInterrupt")
    status, output, shown = run_on_terminal(code, columns=30)
    assert status != 0
    assert output == ""
    assert "\x1b[?25h" in shown
    assert "select stopped at 200/300 rows after" in shown
    assert on_screen(shown)[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TTY_INTERACTIVE": "0"}])
def test_lines_on_a_terminal_that_cannot_draw(environment):
    status, output, shown = run_on_terminal(WORK, **environment)
    assert status == 0
    assert output == "result True True\n"
    assert "\x1b" not in shown
    assert shown.startswith("select: 300 rows\r\n")


def test_lines_elsewhere():
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        capture_output=True,
        text=True,
        check=True,
        env=plain_environment(),
    )
    assert done.stdout == "result False True\n"
    lines = done.stderr.splitlines()
    assert lines[:2] == ["select: 300 rows", "a [bold]message[/bold]"]
    assert lines[-2] == "a log line"
    assert re.fullmatch(r"select 300/300 rows in \d+ s, .*held-out error 0.0520", lines[-1])


def test_lines_come_at_intervals(clock):
    stream = io.StringIO()
    progress = Progress(stream, interval=30, clock=clock)
    progress.start(2000, "rows", "select")
    progress.update(250)
    for done in range(251, 351):
        clock.now += 0.5
        progress.update(done, train_error=0.0431, heldout_error=0.052)
    clock.now += 10
    progress.finish()
    progress.finish()
    assert stream.getvalue().splitlines() == [
        "select: 2000 rows",
        "select 310/2000 rows, 2.0/s, 14 min 05 s left, training error 0.0431, "
        "held-out error 0.0520",
        "select stopped at 350/2000 rows after 1 min 00 s, 2.0/s, training error 0.0431, "
        "held-out error 0.0520",
    ]


def test_figures_stay_until_they_are_replaced(clock):
    progress = Progress(io.StringIO(), clock=clock)
    progress.start(10, "steps", "search")
    progress.update(1, heldout_nlpp=0.2, log_evidence=-12345.6)
    progress.update(2, heldout_nlpp=0.1)
    assert progress.figures == "held-out NLPP 0.1000, log evidence -1.235e+04"
    progress.start(5, "steps", "next")
    assert progress.figures == ""


def test_parts_of_a_piece_have_figures_of_their_own(clock):
    progress = Progress(io.StringIO(), clock=clock)
    progress.start(10, "rows", "first")
    progress.update(1, log_evidence=-3.0)
    progress.turn_to("second")
    assert progress.line == "second 1/10 rows"
    progress.update(2, accepted=0.5)
    assert progress.figures == "accepted 0.5000"


def test_work_without_a_stage(clock):
    stream = io.StringIO()
    with Progress(stream, clock=clock) as progress:
        progress.update(3)
        progress.message("hello")
    assert stream.getvalue() == "hello\n"


def test_messages_follow_standard_error(capsys):
    Progress().message("hello")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_null_progress_says_nothing(capsys):
    with NullProgress() as progress:
        progress.start(3, "rows", "select")
        progress.update(1, error=0.5)
        progress.message("hello")
    assert capsys.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_does_not_end_the_work():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    with Progress(Full()) as progress:
        progress.start(3, "rows", "select")
        progress.update(3)


def test_rate_counts_this_session_only(clock):
    pace = Pace(2000, clock)
    assert (pace.rate, pace.seconds_left) == (None, None)
    clock.now += 100  # earlier work is restored
    pace.record(350)
    assert (pace.rate, pace.seconds_left) == (None, None)
    clock.now += 10
    pace.record(400)
    assert pace.rate == pytest.approx(5.0)
    assert pace.seconds_left == pytest.approx(1600 / 5)
    clock.now += 20
    assert pace.rate == pytest.approx(5.0)
    assert pace.seconds_left == pytest.approx(300)
    assert pace.seconds == pytest.approx(130)


def test_rate_is_that_of_recent_work(clock):
    pace = Pace(10_000, clock)
    pace.record(0)
    for second in range(1, 501):
        clock.now += 1
        pace.record(10 * second if second <= 300 else 3000 + 2 * (second - 300))
    assert pace.rate == pytest.approx(2.0)
    assert pace.seconds_left == pytest.approx((10_000 - 3400) / 2)
    assert pace.average == pytest.approx(3400 / 500)


def test_rate_of_slow_steps_and_after_a_pause(clock):
    pace = Pace(100, clock)
    for step in range(20):
        pace.record(step)
        clock.now += 600
    assert pace.rate == pytest.approx(1 / 600)
    clock.now += 86_400  # the machine slept
    for step in range(20, 30):
        pace.record(step)
        clock.now += 600
    assert pace.rate == pytest.approx(1 / 600)
    assert pace.seconds_left == pytest.approx(70 * 600, abs=1200)


def test_many_updates_are_few_moments(clock):
    pace = Pace(10**6, clock)
    for step in range(50_000):
        pace.record(step)
        clock.now += 0.01
    assert len(pace._moments) < 70
    assert pace.rate == pytest.approx(100, rel=0.05)


def test_work_that_goes_back_begins_anew(clock):
    pace = Pace(100, clock)
    for done in (10, 50, 20, 30):
        pace.record(done)
        clock.now += 1
    assert pace.rate == pytest.approx(10)


def test_time_left_is_never_negative(clock):
    pace = Pace(10, clock)
    pace.record(0)
    clock.now += 1
    pace.record(9)
    clock.now += 1000
    assert pace.seconds_left == 0.0
    pace.record(12)
    assert pace.seconds_left == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (86400 * 3 + 3600 * 4.5, "3 d 4 h"),
    ],
)
def test_words_for_times(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("rate", "words"),
    [(1234.4, "1234/s"), (41.23, "41.2/s"), (0.5, "30.0/min"), (1 / 600, "6.0/h")],
)
def test_words_for_rates(rate, words):
    assert speed(rate) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0.0000"), (0.052, "0.0520"), (2e-5, "2e-05"), (float("nan"), "nan"), (12.5, "12.5000")],
)
def test_words_for_figures(value, words):
    assert figure(value) == words
