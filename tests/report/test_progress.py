"""Progress on a real terminal, and elsewhere."""

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

from sparsegp.progress import Recorded
from sparsegp.report import Progress
from sparsegp.report.progress import duration

WORK = """
import sys, time, warnings
warnings.simplefilter("always")
from sparsegp.report import Progress
assert "rich" not in sys.modules
with Progress() as progress:
    progress.start(300, "rows", "select")
    for done in range(100, 301, 50):
        progress.update(done, train_error=0.0431, heldout_error=0.052)
        time.sleep(0.6 if sys.stderr.isatty() else 0.01)
        if done == 200:
            progress.message("a [bold]message[/bold]")
            warnings.warn("a warning")
print("result", "rich" in sys.modules)
"""
LAST = r"select 300/300 rows in \d+ s, training error 0.0431, held-out error 0.0520"


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
    assert output == "result True\n"
    assert re.search(r"select .*━.*200/300.* rows .*0:00:0", shown)
    assert shown.count("training error 0.0431, held-out error 0.0520") > 2
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor must be visible"
    lines = on_screen(shown)
    assert lines[0] == "a [bold]message[/bold]"
    assert any(line.endswith("UserWarning: a warning") for line in lines)
    assert re.fullmatch(LAST, lines[-1])


def test_bar_is_taken_away_when_the_work_fails():
    code = WORK.replace('warnings.warn("a warning")', "raise KeyboardInterrupt")
    status, output, shown = run_on_terminal(code, columns=30)
    assert status != 0
    assert output == ""
    assert "\x1b[?25h" in shown
    assert "select stopped at 200/300 rows after" in shown
    assert on_screen(shown)[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TTY_INTERACTIVE": "0"}])
def test_a_terminal_that_cannot_draw(environment):
    status, output, shown = run_on_terminal(WORK, **environment)
    assert status == 0
    assert output == "result True\n"
    assert "\x1b" not in shown
    assert re.fullmatch(LAST, shown.splitlines()[-1])


def test_elsewhere_messages_and_a_line_in_the_end():
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        capture_output=True,
        text=True,
        check=True,
        env=plain_environment(),
    )
    assert done.stdout == "result False\n"
    lines = [line for line in done.stderr.splitlines() if "warn" not in line]
    assert lines[0] == "a [bold]message[/bold]"
    assert re.fullmatch(LAST, lines[-1])
    assert len(lines) == 2


def test_stages():
    stream = io.StringIO()
    with Progress(stream) as progress:
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
    assert re.fullmatch(
        r"search stopped at 2/10 steps after \d+ s, held-out NLPP 0.1000, "
        "log evidence -1.235e\\+04, seconds 2e-05",
        first,
    )
    assert re.fullmatch(r"next 7 rounds in \d+ s", second)
    assert re.fullmatch(r"none stopped at 0/3 rows after \d+ s", third)


def test_messages_follow_standard_error(capsys):
    Progress().message("hello")
    assert capsys.readouterr() == ("", "hello\n")


def test_a_log_that_cannot_be_written_does_not_end_the_work():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    with Progress(Full()) as progress:
        progress.start(3, "rows", "select")
        progress.update(3)


def test_recorded():
    records, stream = [], io.StringIO()
    progress = Recorded(Progress(stream), records.append)
    progress.message("hello")
    progress.start(10, "rows", "select")
    progress.update(1, error=0.5)
    progress.update(2)
    progress.finish()
    assert [{**record, "time": 0} for record in records] == [
        {"stage": "select", "total": 10, "unit": "rows", "done": n, "time": 0}
        | {"figures": {"error": 0.5}}
        for n in (1, 2)
    ]
    assert stream.getvalue().startswith("hello\nselect stopped at 2/10 rows")


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
