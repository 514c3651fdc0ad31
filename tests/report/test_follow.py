"""A run written down by its driver and shown elsewhere, and when it counts as dead."""

import contextlib
import json
import logging
import math
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsegp.checkpoint import RunLock
from sparsegp.errors import StoreError
from sparsegp.execution.glimpse import look, progress_file
from sparsegp.report import NullProgress, Progress
from sparsegp.report.follow import Follower, Mirror, Patience, follow
from sparsegp.report.journal import Account, Ending, Journal, Work
from sparsegp.run_directory import RunDirectory
from sparsegp.tuning.records import Records
from tests.processes import wait_until

QUICK = Patience(pause=0.02, near=0.05, far=0.1, silent=0.3, reading=0.3)
DONE = Ending(0, "", {"error": 0.25, "run": "here"}, (("rows", "7"), ("error", "25.00 %")))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    return folder


@pytest.fixture
def journal(run: Path) -> Iterator[Journal]:
    """That of a run that holds its directory."""
    journal = Journal(run)
    journal.open()
    with RunLock(run / "lock"):
        yield journal
        journal.close(DONE)


def written(run: Path) -> Account | None:
    found = look(run, False)["progress"]
    return None if found is None else Account.from_json(found)


def short_run(told: Progress | Journal) -> None:
    told.start(40, "rows", "select")
    told.update(10, train_error=0.5)
    told.update(40, train_error=0.25)
    told.message("a message")
    told.finish()
    told.start(0, "rounds", "posterior")
    told.update(3, objective=-0.2)
    told.finish()


def test_what_is_shown_there_is_shown_here(
    run: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apart from the order of messages and pieces of work, of which each is kept apart."""
    short_run(Progress())
    expected = capsys.readouterr().err.splitlines()
    short_run(journal)
    journal.close(DONE)
    assert follow(partial(look, run), Follower(str(run), Mirror(), QUICK)) == DONE
    found = capsys.readouterr().err.splitlines()
    assert sorted(map(without_times, found)) == sorted(map(without_times, expected))
    assert any("select 40/40 rows in 0 s" in line for line in found)


def without_times(line: str) -> str:
    return ", ".join(part for part in line.split(", ") if not part.endswith("/s"))


def test_progress_is_seen_while_it_goes_on(run: Path, journal: Journal) -> None:
    journal.begin("select")
    journal.start(100, "rows", "select")
    journal.update(30, heldout_error=0.125)

    def half_way() -> bool:
        account = written(run)
        return bool(account and account.works and account.works[0].last)

    assert wait_until(half_way, 10)
    account = written(run)
    assert account is not None
    [work] = account.works
    assert (account.pid, account.host) == (os.getpid(), socket.gethostname())
    assert (work.total, work.unit, work.description) == (100, "rows", "select")
    assert work.last is not None
    assert work.last[1] == 30
    assert work.figures == {"heldout_error": 0.125}
    assert account.stage == "select"
    beat = account.beat
    assert wait_until(lambda: (now := written(run)) is not None and now.beat > beat, 10), (
        "no sign of life without news"
    )


def test_a_tuning_may_become_a_run(tmp_path: Path) -> None:
    """Its directory may hold nothing else then, and is claimed twice."""
    run = tmp_path / "run"
    journal = Journal(run)
    journal.open()
    journal.begin("tune")
    records = Records(run)
    records.open({"settings": {}, "data": {}, "limits": {}}, resume=False)
    assert wait_until(lambda: (found := written(run)) is not None and found.stage == "tune", 10)
    assert progress_file(run) == run / "tuning" / "progress.json"
    records.close()
    directory = RunDirectory(run, 2, pytest.fail)
    directory.open({"settings": {}, "data": {}}, resume=False)
    journal.begin("select")
    assert wait_until(lambda: (found := written(run)) is not None and found.stage == "select", 10)
    assert progress_file(run) == run / "progress.json"
    directory.close()
    journal.close(DONE)
    assert follow(partial(look, run), Follower(str(run), Mirror(), QUICK)) == DONE


def test_warnings_are_seen_elsewhere(run: Path, journal: Journal) -> None:
    logging.getLogger("sparsegp.execution").warning("worker %s lost", 3)
    logging.getLogger("sparsegp.execution").info("nothing of interest")
    journal.close(DONE)
    logging.getLogger("sparsegp.execution").warning("another run")
    account = written(run)
    assert account is not None
    assert account.messages == [(0, "warning: worker 3 lost")]


def test_left_without_a_word(run: Path, journal: Journal, capsys: Any) -> None:
    journal.start(9, "rows", "select")
    journal.update(3)
    assert wait_until(lambda: written(run) is not None, 10)
    follower = Follower(str(run), Mirror(), QUICK)
    assert follow(partial(look, run), follower, until_begun=True) is None
    assert capsys.readouterr().err == "select: 9 rows\n"


def test_figures_that_are_no_numbers_pass(run: Path, journal: Journal) -> None:
    journal.start(2, "rows", "select")
    journal.update(1, train_error=math.nan, objective=-math.inf)
    journal.close(DONE)
    account = written(run)
    assert account is not None
    assert math.isnan(account.works[0].figures["train_error"])
    assert account.works[0].figures["objective"] == -math.inf


def test_only_the_latest_is_kept(run: Path, journal: Journal) -> None:
    for number in range(100):
        journal.start(1, "points", f"work {number}")
        journal.message(f"message {number} " + 1000 * "x")
    journal.close(DONE)
    account = written(run)
    assert account is not None
    assert account.works[-1].description == "work 99"
    assert account.messages[-1][1].startswith("message 99")
    assert progress_file(run).stat().st_size < 50_000


def test_nothing_is_written_where_others_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "lock").write_text("process 1 on some other machine\n")
    journal = Journal(tmp_path)
    journal.open()
    short_run(journal)
    journal.close(DONE)
    assert look(tmp_path, False)["progress"] is None
    assert not (tmp_path / "tuning").exists()


def test_what_a_finished_run_tells_stays(run: Path, journal: Journal) -> None:
    journal.close(DONE)
    (run / "model").mkdir()
    before = progress_file(run).read_bytes()
    with RunLock(run / "other-lock"):  # the driver of a command that finds nothing to do
        later = Journal(run)
        (run / "other-lock").replace(run / "lock")
        later.open()
        later.close(Ending(0))
    assert progress_file(run).read_bytes() == before


def test_a_command_that_is_refused_writes_nothing(run: Path, journal: Journal) -> None:
    """Also where the process that held the directory last is the same."""
    journal.close(DONE)
    before = progress_file(run).read_bytes()
    later = Journal(run)
    later.open()
    later.close(Ending(2, "error: taken"))
    assert progress_file(run).read_bytes() == before


def test_a_full_disk_costs_the_progress_alone(small_disk: SimpleNamespace) -> None:
    run = small_disk.path
    (run / "run.json").write_text("{}")
    journal = Journal(run)
    with RunLock(run / "lock"):
        journal.open()
        journal.begin("select")
        assert wait_until(progress_file(run).exists, 10)
        fill(run / "filler")
        for number in range(50):  # longer than what is left of the last page
            journal.message(f"{number} " + 400 * "x")
        time.sleep(1.0)
        journal.close(DONE)
    assert sorted(path.name for path in run.iterdir()) == [
        "filler", "lock", "progress.json", "run.json",
    ]  # fmt: skip
    account = written(run)
    assert account is not None
    assert account.ending is None


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
        while filler.write(bytes(1 << 12)):
            pass


def seen(**changes: Any) -> dict[str, Any]:
    """A glimpse of a run whose driver ended without a word."""
    progress = Account(pid=7, host="there", began=1.0, beat=3, stage="select").to_json()
    glimpse = {"host": "there", "exists": True, "finished": False, "progress": progress}
    return {**glimpse, "holder": "", **changes}


def outcome(**changes: Any) -> Ending:
    ending = follow(lambda _: seen(**changes), Follower("run", Mirror(), QUICK))
    assert ending is not None
    return ending


def test_every_wait_ends_with_a_sentence() -> None:
    driver = {"pid": 7, "began": 1.0, "code": None, "said": "", "log": "run.log"}
    lost = "does not go on: process 7 on there ended in stage select; go on by the same command"
    for changes, said in (
        ({}, lost),
        ({"host": "here"}, lost),
        ({"finished": True}, "its model is complete"),
        ({"exists": False, "progress": None}, "there is no run run on there"),
        ({"progress": None}, "no run goes on in run on there"),
        ({"progress": None, "holder": "process 9 on there"}, "process 9 on there holds run but"),
        ({"progress": None, "holder": None}, "a process holds run but writes no progress"),
        ({"holder": "process 7 on there"}, "process 7 on there, which drives run, gave no sign"),
        ({"holder": None}, "process 7 on there, which drives run, gave no sign of life for 0 s"),
        ({"driver": driver}, "process 7, which drives run, gave no sign of life"),
        ({"driver": driver, "progress": None}, "process 7, which drives run, gave no sign"),
        ({"driver": {**driver, "code": -9}}, r"was ended by signal 9 (Killed) in stage select"),
        ({"driver": {**driver, "code": 2, "said": "error: no"}}, "error: no (process 7; its out"),
    ):
        ending = outcome(**changes)
        assert ending.code == 2, changes
        assert said in ending.text, changes


def test_a_finished_run_without_progress() -> None:
    ending = outcome(progress=None, finished=True)
    assert ending.code == 0
    assert ending.record == {"run": "run"}


def test_an_end_counts_unless_another_process_goes_on() -> None:
    ended = Account(7, "there", 1.0, 3, ending=Ending(75, "stopped")).to_json()
    assert outcome(progress=ended) == Ending(75, "stopped")
    assert outcome(progress=ended, holder="process 7 on there") == Ending(75, "stopped")
    leaving = {"pid": 7, "began": 0.5, "code": None, "said": "", "log": "run.log"}
    glimpses = iter([seen(progress=ended, driver={**leaving, "code": code}) for code in (None, 75)])
    assert follow(lambda _: next(glimpses), Follower("run", Mirror(), QUICK)) == Ending(
        75, "stopped"
    )
    assert next(glimpses, None) is None, "its process has ended too"
    assert outcome(progress=ended, driver=leaving) == Ending(75, "stopped"), "it hangs at its exit"
    later = outcome(progress=ended, holder="process 9 on there")
    assert later.code == 2
    assert later.text.startswith("error: process 9 on there, which drives run, gave no sign")
    driver = {"pid": 9, "began": 2.0, "code": 2, "said": "error: its own", "log": "run.log"}
    assert outcome(progress=ended, driver=driver).text.startswith("error: its own")
    resumed = Account(11, "there", 3.0, 3, ending=DONE).to_json()
    assert outcome(progress=resumed, driver=driver) == DONE, "by hand, after that driver"
    done = Account(7, "there", 1.0, 3, ending=DONE).to_json()
    assert outcome(progress=done, driver={**driver, "code": 0}) == DONE


def test_another_session_takes_over() -> None:
    """Its beginning and its end are seen, not those of the one before."""
    former = Account(7, "there", 1.0, 3, ending=Ending(2, "error: killed")).to_json()
    second = Account(9, "there", 2.0, 1, ending=DONE).to_json()
    glimpses = iter(
        [
            seen(progress=former, holder="process 9 on there"),
            seen(progress=former, holder=None),
            seen(progress=second, holder=None),
        ]
    )
    assert follow(lambda _: next(glimpses), Follower("run", Mirror(), QUICK)) == DONE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


FIELDS = [*Account(1, "h", 0.0).to_json()]
INSIDE = [*asdict(Work(0, 1, "rows", "select", 0.0))]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
    st.dictionaries(st.sampled_from(INSIDE), json_values, max_size=3),
)
def test_damaged_progress_is_refused_or_shown(
    changes: dict[str, Any], inside: dict[str, Any]
) -> None:
    work = Work(0, 5, "rows", "select", 0.0, (1.0, 2), (1.5, 3), {"x": 0.5})
    stored = Account(7, "there", 1.0, 3, stage="select").to_json()
    stored["works"] = [asdict(work) | inside]
    follower = Follower("run", Mirror(), QUICK)
    with contextlib.suppress(StoreError):
        follower.take(seen(progress=json.loads(json.dumps(stored | changes)), holder=None))


@pytest.mark.parametrize(
    ("progress", "said"),
    [({"version": 2}, "must be of version 1, found 2"), ({}, "is damaged"), ([], "is damaged")],
)
def test_what_is_no_progress_is_refused(progress: Any, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        Account.from_json(progress)


def test_a_quiet_mirror_passes_on_messages_alone() -> None:
    said: list[str] = []
    mirror = Mirror(said.append)
    account = Account(7, "there", 1.0, 1, stage="evaluate", messages=[(0, "lost"), (1, "found")])
    mirror.show(account)
    mirror.show(account)
    assert said == ["lost", "found"]
    assert isinstance(mirror._shown, NullProgress)
