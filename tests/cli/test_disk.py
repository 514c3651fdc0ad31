"""Disks that are full or cannot be written."""

import os

import pytest

from tests.processes import invoke

TRAIN = ("--n-active", 40, "--checkpoint-every", 10, "--quiet")


def fill(folder, leaving):
    """Write a file that leaves so many bytes free."""
    disk = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize - leaving))
    return filler


def test_full_disk(small_disk, trained, files):
    """The run goes on without checkpoints as long as it can, and says so."""
    filler = fill(small_disk.path, leaving=40_000)
    run = small_disk.path / "run"
    result = invoke("train", files / "pair.npz", "--out", run, *TRAIN, code=2)
    *warnings, last = result.stderr.splitlines()
    assert all("no checkpoint at " in line for line in warnings)
    assert last.startswith(f"error: cannot write {run}/")
    assert "No space left on device" in last
    filler.unlink()
    invoke("train", files / "pair.npz", "--out", run, *TRAIN, "--resume")
    assert invoke("evaluate", run, files / "pair.npz").stdout == (
        invoke("evaluate", trained, files / "pair.npz").stdout
    )


@pytest.mark.parametrize("ending", ["csv", "npz", "zarr"])
def test_full_disk_while_predicting(ending, small_disk, trained, files):
    out = small_disk.path / f"p.{ending}"
    fill(small_disk.path, leaving=4096)
    arguments = ("predict", trained, files / "only.npz", "--latent", "--out", out)
    result = invoke(*arguments, code=2)
    assert result.stderr.startswith(f"error: cannot write {out}: ")
    assert [path.name for path in small_disk.path.iterdir()] == ["filler"]
