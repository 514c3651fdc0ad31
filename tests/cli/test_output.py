"""Standard output that is closed, full, or a terminal that labels must not steer."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from sparsegp.cli.stages import Stages


@pytest.mark.parametrize("command", ["inspect", "--help"])
def test_a_reader_that_has_seen_enough(command, start, trained, tmp_path):
    """As `| head -1` does."""
    rest = {"inspect": (trained, "--json")}.get(command, ())
    with start(command, *rest, cwd=tmp_path) as process:
        process.stdout.close()
        process.wait(timeout=60)
        assert process.stderr.read() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["evaluate", "inspect", "--help"])
def test_a_full_disk_behind_standard_output(command, start, trained, files, tmp_path):
    rest = {"evaluate": (trained, files / "only.npz"), "inspect": (trained,)}.get(command, ())
    with (
        Path("/dev/full").open("w") as full,
        start(command, *rest, cwd=tmp_path, stdout=full) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert os.strerror(28) in line


def test_control_characters_of_labels_do_not_reach_the_terminal(invoke, tmp_path):
    rng = np.random.default_rng(0)
    X, code = rng.standard_normal((60, 3)), np.arange(60) % 2
    hostile = np.array(["\x1b[31mred\x1b]0;title\x07", "\u202eline\nbreak\x9b2J"])
    np.savez(tmp_path / "rows.npz", X=X, y=hostile[code])
    np.savez(tmp_path / "other.npz", X=X, y=np.array(["\x1bunknown"] * 60))
    run = tmp_path / "run"
    shown = [
        invoke("train", tmp_path / "rows.npz", "--n-active", 5, "--out", run),
        invoke("evaluate", run, tmp_path / "rows.npz"),
        invoke("evaluate", run, tmp_path / "other.npz"),
        invoke("inspect", run),
        invoke("predict", run, tmp_path / "rows.npz", "--out", tmp_path / "p.csv"),
    ]
    for result in shown:
        text = result.stdout + result.stderr
        assert not [mark for mark in text if not (mark.isprintable() or mark in "\n")]
    assert r"\x1b[31mred" in shown[3].stdout


@pytest.mark.parametrize("quiet", [True, False])
def test_a_stage_lasts_from_its_start_to_its_end(quiet):
    stages = Stages(quiet)
    stages.begin("prepare")
    stages.start(3, "rows", "select")
    time.sleep(0.01)
    stages.finish()
    assert stages.taken()["select"] >= 0.01
