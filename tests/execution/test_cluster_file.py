"""Cluster files: what they may say, and what is said of mistakes in them."""

import inspect
import re
import shlex
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from distributed import LocalCluster, Nanny, SSHCluster

import sparsegp
from sparsegp.cli import main
from sparsegp.errors import ClusterError, SettingsError
from sparsegp.execution import Part, open_runtime
from sparsegp.execution.cluster_file import read_cluster_file
from sparsegp.execution.kinds import KINDS
from sparsegp.execution.security import Certificate
from tests.execution.blocks import Tally

ROOT = Path(sparsegp.__file__).parents[1]
FENCE = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.M | re.S)
READY = sorted((ROOT / "cluster").glob("*/cluster.yaml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


MISTAKES = {
    "": "must hold keys and values",
    "- kind": "must hold keys and values",
    "1: 2": "must hold keys and values",
    "kind: [": "is not valid YAML",
    "!!python/object/apply:os.getcwd []": "is not valid YAML",
    "workers: 2": "kind is missing; it is a text",
    "kind: moon\nworkers: 2": "unknown kind 'moon'; known: kubernetes, local, scheduler, slurm",
    "kind: 3\nworkers: 2": r"kind must be a text \(in quotes\), got 3",
    "kind: local": "workers is missing; it is a whole number",
    "kind: local\nworkers: two": "workers must be a whole number, got 'two'",
    "kind: local\nworkers: true": "workers must be a whole number, got True",
    "kind: local\nworkers: 0": "workers must be at least 1",
    "kind: local\nworkers: 1\nseconds: -1": "seconds more than 0",
    "kind: local\nworkers: 1\nmemroy_limit: 1": "unknown key 'memroy_limit' of kind local; known: ",
    "kind: local\nworkers: 1\nhost: 1": r"host must be a text \(in quotes\), got 1",
    "kind: ssh\nworkers: 1": "hosts is missing; it is a list",
    "kind: ssh\nworkers: 1\nhosts: []": "hosts is missing; it is a list",
    "kind: slurm\nworkers: 1": "memory is missing",
    "kind: slurm\nworkers: 1\nmemory: 1GB\nwalltime: 12:00:00": "walltime must be a text .* 43200",
    "kind: local\nworkers: 1\nsecurity: tls": "security must be temporary, none, or a table of",
    "kind: local\nworkers: 1\nsecurity: {tls_key: a}": "security must be temporary, none, or a",
    "kind: local\nworkers: 1\nsecurity: {tls_ca_file: a, tls_cert: b, tls_key: 3}": "tls_key must",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=MISTAKES[text]) as caught:
        read_cluster_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the cluster file .*No such file"):
        open_runtime(cluster=tmp_path / "none.yaml")


def test_the_command_line_says_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, "kind: local\nworkers: 0\n")
    for command in ("train", "estimate"):
        result = CliRunner().invoke(main, [command, "toy", "--cluster", str(path)])
        assert result.exit_code == 2
        assert f"error: {path}: workers must be at least 1" in result.stderr


def test_estimate_counts_the_workers_and_starts_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "kind: ssh\nworkers: 3\nhosts: [nowhere.invalid]\n")
    result = CliRunner().invoke(main, ["estimate", "toy", "--cluster", str(path)])
    assert result.exit_code == 0, result.output
    assert "for 3 workers and driver" in result.stdout
    assert "driver fits    yes, in the" in result.stdout
    assert "give a worker" in result.stdout


def test_an_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KINDS:
        kind = KINDS[name]
        if kind.needs is None:
            continue
        monkeypatch.setitem(sys.modules, kind.needs, None)  # as if it were not installed
        required = {key: ["a"] if kind.options[key] == (list,) else "a" for key in kind.required}
        path = write(tmp_path, yaml.safe_dump({"kind": name, "workers": 1, **required}))
        with pytest.raises(
            SettingsError, match=rf"install it with: pip install .*\[{kind.extra}\]"
        ):
            open_runtime(cluster=path)


@pytest.mark.skipif(find_spec("dask_kubernetes") is None, reason="an extra")
def test_kubernetes_has_no_tls_and_wants_that_said(tmp_path: Path) -> None:
    for security in ("", "security: temporary"):
        path = write(tmp_path, f"kind: kubernetes\nworkers: 1\n{security}\n")
        with pytest.raises(SettingsError, match=r"cannot speak TLS; write 'security: none' and"):
            open_runtime(cluster=path)


def parameters(*callables: Any) -> set[str]:
    return {name for each in callables for name in inspect.signature(each).parameters}


def test_options_are_those_of_the_libraries() -> None:
    """An option that a library drops or renames would be passed on in vain."""
    assert set(KINDS["local"].options) <= parameters(LocalCluster, Nanny)
    assert set(KINDS["ssh"].options) <= parameters(SSHCluster)
    jobqueue = pytest.importorskip("dask_jobqueue")
    job = jobqueue.slurm.SLURMJob
    taken = parameters(jobqueue.SLURMCluster, *(each.__init__ for each in job.__mro__[:2]))
    taken |= parameters(jobqueue.core.JobQueueCluster)
    assert set(KINDS["slurm"].options) <= taken
    with warnings.catch_warnings(action="ignore"):
        kubernetes = pytest.importorskip("dask_kubernetes.operator")
    assert set(KINDS["kubernetes"].options) - {"direct"} <= parameters(kubernetes.KubeCluster)


def test_processes_of_this_machine(tmp_path: Path) -> None:
    with open_runtime(cluster=write(tmp_path, "kind: local\nworkers: 2\n")) as runtime:
        assert "tcp://127.0.0.1" in runtime.describe()
        runtime.build(Tally, [Part(k, {"index": k}) for k in range(2)])
        assert len(set(runtime.map_blocks("process"))) == 2


def test_a_scheduler_that_runs(tmp_path: Path, scheduler_file: Path) -> None:
    """By its file, named relative to the cluster file; also without a way to the workers."""
    (tmp_path / "scheduler.json").write_bytes(scheduler_file.read_bytes())
    text = "kind: scheduler\nworkers: 2\nfile: scheduler.json\ndirect: false\n"
    with open_runtime(cluster=write(tmp_path, text)) as runtime:
        runtime.build(Tally, [Part(k, {"index": k}) for k in range(2)])
        assert runtime.map_blocks("name") == ["block 0", "block 1"]
    text = "kind: scheduler\nworkers: 3\nfile: scheduler.json\nseconds: 0.5\n"
    with pytest.raises(ClusterError, match=r"has 2 workers after 0\.5 s, but 3 must be there"):
        open_runtime(cluster=write(tmp_path, text))


def test_schedulers_that_cannot_be_meant(tmp_path: Path) -> None:
    for text, said in {
        "": "takes either address or file",
        "address: tcp://127.0.0.1:9\nfile: a": "takes either address or file",
        "address: tcp://127.0.0.1:9\nsecurity: temporary": "must name the certificate",
    }.items():
        with pytest.raises(SettingsError, match=said):
            open_runtime(cluster=write(tmp_path, f"kind: scheduler\nworkers: 1\n{text}\n"))


def test_what_a_library_refuses_is_one_sentence(tmp_path: Path) -> None:
    text = "kind: local\nworkers: 1\nhost: nowhere.invalid\nsecurity: none\nseconds: 5\n"
    with pytest.raises(ClusterError, match="1 worker processes did not start"):
        open_runtime(cluster=write(tmp_path, text))


@pytest.mark.skipif(not READY, reason="an installed package has no ready files")
def test_every_kind_has_a_ready_file() -> None:
    kinds = {path: read_cluster_file(path).kind for path in READY}
    assert set(kinds.values()) == set(KINDS) - {"scheduler"}
    assert all(path.parent.name == kind for path, kind in kinds.items())


@pytest.mark.skipif(not READY, reason="an installed package has no ready files")
@pytest.mark.parametrize("name", [path.parent.name for path in READY])
def test_commands_of_the_ready_folders_exist(name: str) -> None:
    """Those of this program have such options, and the files that they name are there."""
    text = (ROOT / "cluster" / name / "README.md").read_text(encoding="utf-8")
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    own = [shlex.split(line)[1:] for line in lines if line.startswith("sparsegp ")]
    assert any(words[0] == "train" for words in own) or name == "slurm"
    assert any(words[0] == "estimate" for words in own)
    with click.Context(main, info_name="sparsegp") as context:
        for words in own:
            command = main.get_command(context, words[0])
            assert command is not None, words
            command.make_context(words[0], words[1:])
    for word in " ".join(lines).split():
        if word.startswith("cluster/"):
            assert (ROOT / word).is_file(), word


@pytest.mark.skipif(not READY, reason="an installed package has no ready files")
def test_yaml_that_the_readme_shows_can_be_read(tmp_path: Path) -> None:
    text = (ROOT / "cluster" / "README.md").read_text(encoding="utf-8")
    blocks = YAML.findall(text)
    assert blocks
    for block in blocks:
        path = write(tmp_path, f"kind: scheduler\nworkers: 1\naddress: tls://a:1\n{block}")
        assert isinstance(read_cluster_file(path).security, Certificate)
