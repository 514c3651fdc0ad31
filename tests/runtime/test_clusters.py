"""Opening runtimes: words, addresses, files; who may join; what is said of mistakes."""

import gc
import logging
import logging.handlers
import os
import signal
import socket
import time
import weakref
from contextlib import suppress

import psutil
import pytest

from sparsegp.errors import ClusterError, SettingsError
from sparsegp.runtime import open_runtime
from sparsegp.runtime.clusters import connect, read_cluster_file, runtime_of
from sparsegp.runtime.threads import ThreadRuntime, usable_cpus
from tests.processes import PATIENCE, ROOT, invoke, make_certificate, run_python
from tests.runtime.blocks import Tally, parts
from tests.runtime.by_hand import Cluster

READY = [*sorted((ROOT / "cluster").glob("*/cluster.yaml")), ROOT / "cluster" / "scheduler.yaml"]
LOCAL = "class: distributed.LocalCluster\n"
NO_DASHBOARDS = "dashboard_address: 127.0.0.1:0\nworker_dashboard_address: 127.0.0.1:0\n"
ready_files = pytest.mark.skipif(not READY[0].exists(), reason="an installed package has none")


def write(folder, text):
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def answers(where, **options):
    """Return the address of a scheduler, after a round of its workers."""
    with open_runtime(where, **options) as runtime:
        runtime.build(Tally, parts(2))
        assert runtime.map_blocks("name") == ["block 0", "block 1"]
        return runtime.client.scheduler_info()["address"]


def test_words():
    with open_runtime() as runtime:
        assert isinstance(runtime, ThreadRuntime)
        assert runtime.n_workers == usable_cpus()
    with open_runtime("threads=3") as runtime:
        assert runtime.n_workers == 3
        with open_runtime(runtime) as same:
            assert same is runtime
        runtime.build(Tally, parts(1))  # it is still open
    for wrong in ("threads=0", "workers=-1", "processes=2", "threads=x", "run.txt", "", "x" * 999):
        with pytest.raises(SettingsError) as caught, open_runtime(wrong):
            pass
        assert len(str(caught.value)) < 400
    for no_scheduler in (None, "workers=1", "cluster.yaml"):
        with (
            pytest.raises(SettingsError, match="tls goes with"),
            open_runtime(no_scheduler, tls="."),
        ):
            raise AssertionError


def test_a_script_without_guard_is_refused_at_once(tmp_path):
    body = "from sparsegp.runtime import open_runtime\nwith open_runtime('workers=1'): pass\n"
    (tmp_path / "script.py").write_text(body)
    said = run_python(tmp_path / "script.py", code=1).stderr
    assert said.count("Traceback") == 1
    assert said.endswith('put what it does below: if __name__ == "__main__":\n')


@pytest.mark.slow
def test_addresses_and_files(address, scheduler_file, tmp_path):
    for where in (address, address.removeprefix("tcp://"), scheduler_file):
        assert address in answers(where)
    (tmp_path / "s.json").write_bytes(scheduler_file.read_bytes())  # named relative to the file
    text = "scheduler_file: s.json\nworkers: 2\ndirect: false\n"
    assert address in answers(write(tmp_path, text))


@pytest.mark.slow
def test_a_cluster_of_a_class(tmp_path):
    """One that does not use TLS and can be reached from other machines is warned of."""
    text = f"{LOCAL}workers: 1\nseconds: {PATIENCE}\nthreads_per_worker: 1\n{NO_DASHBOARDS}"
    logger, handler = logging.getLogger("sparsegp.runtime"), logging.handlers.BufferingHandler(99)
    logger.addHandler(handler)  # pytest's own ones are silenced with Dask's
    try:
        assert "tls://" in answers(write(tmp_path, f"{text}host: 127.0.0.1\nsecurity: true\n"))
        assert not handler.buffer
        assert "tcp://" in answers(write(tmp_path, f"{text}host: 0.0.0.0\n"))
        assert "does not use TLS" in handler.buffer[0].getMessage()
    finally:
        logger.removeHandler(handler)


def test_nobody_answers(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for address in ("tcp://127.0.0.1:9", f"tcp://127.0.0.1:{silent.getsockname()[1]}"):
            begin = time.monotonic()
            with pytest.raises(ClusterError, match=f"no dask scheduler answered at {address}"):
                connect(address, seconds=0.5)
            assert time.monotonic() - begin < 25  # less than without `seconds`
    damaged = tmp_path / "damaged.json"
    for text in ("{", "[" * 100_000, '{"id": 1}'):
        damaged.write_text(text)
        with pytest.raises(ClusterError, match="holds no scheduler address"):
            connect(damaged)


def test_no_lost_client_is_finalized_while_another_starts(address):
    """Their locks are the same one."""
    lost = type("Lost", (), {})()
    lost.itself, alive = lost, weakref.ref(lost)
    del lost
    gc.disable()
    try:
        connect(address).close()
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_too_few_workers(address):
    for seconds in (0.5, 5.0, PATIENCE):  # in which a scheduler on a busy machine must answer too
        with pytest.raises(ClusterError) as caught:
            connect(address, n_workers=40, seconds=seconds)
        if "no dask scheduler answered" not in str(caught.value):
            break
    caught.match("but 40 must be there; start workers with")


MISTAKES = {
    "": "must hold keys and values",
    "- class": "must hold keys and values",
    "workers: [": "is not valid YAML",
    "workers: !!python/object/apply:os.getcwd []": "is not valid YAML",
    "workers: !!int a": "is not valid YAML",
    "when: !!timestamp 2024-13-45": "is not valid YAML",
    "a: " + "[" * 1000: "is not valid YAML",
    "\xff\x00": "is not valid YAML",
    "workers: 2": "must name one of class, scheduler, scheduler_file",
    LOCAL + "scheduler: tcp://a:1\nworkers: 2": "must name one of",
    LOCAL: "workers must be at least 1",
    LOCAL + "workers: two": "workers cannot be 'two'",
    LOCAL + "workers: true": "workers cannot be True",
    LOCAL + "workers: 0": "workers must be at least 1",
    LOCAL + f"workers: {'9' * 400}": "workers cannot be",
    LOCAL + "workers: 1\nseconds: -1": "seconds more than 0",
    "scheduler: tcp://a:1\nworkers: 1\nhosts: []": "unknown key 'hosts'",
    "scheduler: [tcp://a:1]\nworkers: 1": "scheduler cannot be",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_in_a_file_are_one_line(text, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=MISTAKES[text]) as caught:
        read_cluster_file(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class: os.system\n", "class must be a cluster's import path"),
        ("class: nowhere.MoonCluster\n", "there is no nowhere.MoonCluster"),
        ("class: distributed.MoonCluster\n", "there is no distributed.MoonCluster"),
        (LOCAL + NO_DASHBOARDS + "memroy_limit: 1\n", "did not start .*memroy_limit"),
        (LOCAL + NO_DASHBOARDS + "host: nowhere.invalid\n", "did not start"),
        ("scheduler: tcp://127.0.0.1:9\ntls: ~nobody-at-all\nseconds: 1\n", "must hold ca.pem"),
    ],
)
def test_what_cannot_be_started_is_one_line(text, said, tmp_path, capfd):
    with (
        pytest.raises((SettingsError, ClusterError), match=said) as caught,
        open_runtime(write(tmp_path, f"{text}workers: 1\n")),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""  # nor do the processes of Dask say anything


def test_plain_values_of_a_file(tmp_path):
    """Times and dates are texts, as the options of queue systems are."""
    text = "walltime: 04:00:00\nday: 2024-01-01\nzero: 007\nyes: no\nn: -3\nx: 1.5\nnot: false\n"
    found = read_cluster_file(write(tmp_path, f"class: a.ACluster\nworkers: 1\n{text}"))
    assert [found[key] for key in ("walltime", "day", "zero")] == ["04:00:00", "2024-01-01", "007"]
    assert [found[key] for key in ("yes", "n", "x", "not")] == ["no", -3, 1.5, False]


def test_estimate_counts_the_workers_and_starts_nothing(tmp_path):
    path = write(tmp_path, "class: distributed.SSHCluster\nworkers: 3\nhosts: [nowhere.invalid]\n")
    assert "for 3 workers and driver" in invoke("estimate", "toy", "--cluster", path).stdout


@ready_files
def test_ready_files_can_be_read():
    for path in READY:
        assert read_cluster_file(path)["workers"] >= 1


@pytest.mark.slow
@ready_files
def test_only_who_holds_the_certificate_joins(tmp_path):
    own, stranger = (make_certificate(tmp_path / name) for name in ("own", "stranger"))
    assert all(path.stat().st_mode & 0o077 == 0 for path in own.iterdir())
    with Cluster(tmp_path, nannies=True, tls=own) as cluster:
        path = cluster.file
        assert "tls://" in answers(path, tls=own)
        for options in ({}, {"tls": stranger}):
            with pytest.raises(ClusterError, match="no dask scheduler answered"):
                answers(path, **options)
        (stranger / "key.pem").write_bytes((own / "key.pem").read_bytes())
        for folder in (stranger, tmp_path):
            with pytest.raises(SettingsError, match=r"must hold ca.pem, cert.pem and key.pem"):
                answers(path, tls=folder)
        own.chmod(0o777)
        with pytest.raises(SettingsError, match="others cannot write"):
            answers(path, tls=own)


@pytest.mark.slow
def test_local_workers_are_reached_from_this_process_alone(local_runtime):
    """Loopback keeps other machines away, the certificate other users of this one."""
    listening = []
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # one of an earlier test has just ended
            found = process.net_connections("inet")
            listening += [each.laddr for each in found if each.status == psutil.CONN_LISTEN]
    assert {place.ip for place in listening} == {"127.0.0.1"}
    address = local_runtime.client.scheduler_info()["address"]
    assert address.startswith("tls://")
    for scheme in ("tcp", "tls"):
        with pytest.raises(ClusterError):
            connect(f"{scheme}://127.0.0.1:{address.rpartition(':')[2]}", seconds=2.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without forks")
def test_a_forked_child_goes_on_with_its_threads():
    with open_runtime("threads=2") as runtime:
        runtime.build(Tally, parts(4))
        expected = runtime.map_blocks("add", 1)
        child = os.fork()
        if child == 0:  # no assertion may leave the child
            signal.alarm(int(PATIENCE))
            same = runtime.map_blocks("add", 1) == expected
            runtime.close()
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert runtime.map_blocks("add", 1) == expected


def test_what_was_open_is_closed_if_the_scheduler_goes_away(tmp_path):
    closed = []
    with Cluster(tmp_path, n_workers=1) as cluster:
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        with pytest.raises(ClusterError, match="went away"):
            runtime_of("it", cluster.client, lambda: closed.append(True))
    assert closed == [True]
