"""Folders on a disk and in object stores: one contract, and what goes wrong with each."""

import os
import socket
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

import sparsegp
from sparsegp.errors import StoreError, one_line
from sparsegp.store import file_of, folder_of
from tests.processes import start_python


def put(folder, name, content, **options):
    with folder.writing(name, **options) as file:
        file.write(content)


def get(folder, name):
    with folder.open(name) as file:
        return file.read()


def test_contract(place):
    folder = folder_of(place)
    assert folder.sizes() == {}
    with pytest.raises(FileNotFoundError):
        folder.open("x")
    folder.delete("x")
    put(folder, "x", b"one")
    put(folder, "x", b"three", sync=False)
    put(folder, "y", b"", new=True)
    put(folder_of(f"{place}/inner"), "z", b"zz")
    assert {name: folder.sizes()[name] for name in ("x", "y")} == {"x": 5, "y": 0}
    assert "z" not in folder.sizes()
    assert folder_of(f"{place}/inner").sizes() == {"z": 2}
    assert get(folder, "x") == b"three"
    with folder.open("x") as file:
        file.seek(-2, os.SEEK_END)
        assert file.read() == b"ee"
    folder.delete("x")
    assert folder.sizes().keys() - {"inner"} == {"y"}
    assert str(folder) == place
    for name in (f"{place}/new", place):
        other, found = file_of(name, "default")
        assert (str(other), found) == (place, "new" if name != place else "default")


def test_a_writer_that_fails_changes_nothing(place):
    folder = folder_of(place)
    put(folder, "x", b"one")
    with suppress(RuntimeError), folder.writing("x") as file:
        file.write(b"two")
        raise RuntimeError
    assert get(folder, "x") == b"one"
    assert folder.sizes() == {"x": 3}


@pytest.mark.parametrize("place", ["memory", "s3"], indirect=True)
def test_new_objects(place):
    folder = folder_of(place)
    put(folder, "x", b"one", new=True)
    put(folder, "x", b"one", new=True)  # as a second try after an answer that was lost
    with pytest.raises(FileExistsError):
        put(folder_of(place), "x", b"two", new=True)
    assert get(folder, "x") == b"one"


def socket_at(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # names of sockets are short


SPOILERS = {
    "hard link": lambda path: path.hardlink_to("victim"),
    "link": lambda path: path.symlink_to("../victim"),
    "dangling link": lambda path: path.symlink_to("../nothing"),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
    "socket": socket_at,
}


@pytest.mark.parametrize("kind", SPOILERS)
def test_what_is_no_regular_file_is_refused_or_replaced(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text("precious")
    run.mkdir()
    folder = folder_of(run)
    for name in ("lock", "read", "written"):
        SPOILERS[kind](run / name)
    with pytest.raises(StoreError, match=r"run/lock"):
        folder.lock()
    if kind != "hard link":
        with pytest.raises(StoreError, match=r"run/read"):
            folder.open("read")
    if kind != "directory":
        put(folder, "written", b"x")
        assert stat.S_ISREG((run / "written").lstat().st_mode)
    else:
        with pytest.raises(StoreError, match=r"run/written"):
            put(folder, "written", b"x")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
    assert sorted(item.name for item in run.iterdir()) == ["lock", "read", "written"]


def test_a_file_that_the_user_names_may_be_a_link(tmp_path):
    put(folder_of(tmp_path / "real"), "x", b"one")
    (tmp_path / "latest").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "real" / "x")
    for name in ("latest/x", "file"):
        assert get(*file_of(tmp_path / name, "default")) == b"one"
    assert get(folder_of(tmp_path / "latest"), "x") == b"one"


def test_places_that_are_none(tmp_path):
    (tmp_path / "file").write_text("")
    inside = folder_of(tmp_path / "file")
    assert inside.sizes() == {}
    for use in (inside.lock, lambda: put(inside, "x", b""), lambda: inside.open("x")):
        with pytest.raises(StoreError, match=r"file/.* is not a directory"):
            use()
    with pytest.raises(StoreError, match="File name too long"):
        put(folder_of(tmp_path / ("x" * 300)), "x", b"")
    with pytest.raises(StoreError, match="cannot write /dev/null: it is a device"):
        put(folder_of("/dev"), "null", b"")  # by nobody, not even by root
    assert Path("/dev/null").is_char_device()


HOLD = """
import sys
from sparsegp.store import folder_of
handle = folder_of(sys.argv[1]).lock()
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["end", "SIGKILL"])
def test_another_process_is_kept_out_until_its_end(tmp_path, how):
    folder = folder_of(tmp_path / "run")
    with start_python("-c", HOLD, tmp_path / "run", stdin=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=rf"run/lock is held by process {holder.pid} on"):
            folder.lock()
        if how == "SIGKILL":
            holder.kill()
        holder.communicate("\n")
    handle = folder.lock()
    assert f"process {os.getpid()} " in (tmp_path / "run" / "lock").read_text()
    with pytest.raises(StoreError, match="is held by"):
        folder.lock()
    os.close(handle)
    os.close(folder.lock())


def test_the_holder_sweeps_what_is_ours(tmp_path):
    ours = f".x.{uuid4().hex}.tmp"
    others = {".x.tmp", "x.tmp", f".{uuid4().hex}.old", f"x.{uuid4().hex}.tmp"}
    for name in (ours, *others):
        (tmp_path / name).write_text("")
    assert folder_of(tmp_path).sizes().keys() == others
    os.close(folder_of(tmp_path).lock())
    assert {item.name for item in tmp_path.iterdir()} == others | {"lock"}


PLACES = {"a/run": "a/run", "s3://bucket/run/": "s3://bucket/run", "file:///tmp/run": "/tmp/run"}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kind", [str, Path])
def test_paths_and_urls(name, kind):
    assert str(folder_of(kind(name))) == PLACES[name]


@pytest.mark.parametrize(
    "url", ["s3://b/run*", "s3://b/[a]", "simplecache::s3://b/run", "s3://b/\n", "s3://b/a?k=v"]
)
def test_urls_with_marks_in_them_are_refused(url):
    with pytest.raises(StoreError, match="must be a plain URL"):
        folder_of(url)


def test_messages_hide_keys():
    url = "failing2://name:secret@host/bucket"
    assert one_line(f"{url}/x?key=secret") == "failing2://***@host/bucket/x?***"
    for use in (folder_of(url).sizes, lambda: sparsegp.load(url), lambda: folder_of(f"{url}*")):
        with pytest.raises(StoreError) as caught:
            use()
        assert "secret" not in str(caught.value)


def test_a_bucket_that_is_missing(s3):
    folder = folder_of(f"{s3}-not/run")
    assert folder.sizes() == {}
    with pytest.raises(StoreError, match=r"cannot write .*: no such bucket; make it first"):
        put(folder, "x", b"")
    with pytest.raises(FileNotFoundError):
        folder.open("x")
