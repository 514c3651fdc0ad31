"""A SLURM of one node, for real: jobs whose walltime is shorter than the run, jobs as workers."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

import sparsegp
from sparsegp.data import open_dataset
from sparsegp.runtime import open_runtime
from tests.processes import KERNEL, ROOT, environment, free_port, run_python, wait_until
from tests.runs import assert_same
from tests.runtime.blocks import Tally, parts

PATH = f"{os.environ['PATH']}:/usr/sbin"
PROGRAMS = [shutil.which(name, path=PATH) for name in ("munged", "slurmctld", "slurmd", "sbatch")]
AVAILABLE = all(PROGRAMS) and os.getuid() == 0

# `cred_expire` is also how long a requeued job waits (two minutes by default)
SETTINGS = """
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
MpiDefault=none
JobRequeue=1
KillWait=5
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName=localhost NodeAddr=127.0.0.1 CPUs=8 RealMemory=4000
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""

FOLDER = ROOT / "cluster" / "slurm"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AVAILABLE, reason="SLURM is not installed, or this is not root"),
    pytest.mark.skipif(not FOLDER.exists(), reason="an installed package has no scripts"),
]

RUN = ["--panel", "1", "--no-lazy", "--posterior", "adf", "--quiet", "--checkpoint-every", "50"]
RUN += ["--n-nodes", "60", "--n-active", "250", *KERNEL]

ENDS = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}
SIZES = {
    "one-node.sh": ["--cpus-per-task=1", "--mem=500M"],
    "allocation.sh": ["--ntasks=3", "--mem-per-cpu=500M"],
}


@pytest.fixture
def slurm():
    """Start the daemons, as root, on loopback; yields the environment in which they are found."""
    with ExitStack() as stack:
        # short, as the path of a socket must be
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        for name in ("state", "spool"):
            (folder / name).mkdir()
        ports = free_port(), free_port()
        config, key = folder / "slurm.conf", folder / "munge.key"
        config.write_text(SETTINGS.format(folder=folder, ports=ports))
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(config)}
        munge = ["--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
        munge += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
        start(stack, folder, environment, "munged", *munge)
        assert wait_until((folder / "munge.socket").exists, 10), log(folder)
        start(stack, folder, environment, "slurmctld", "-D", "-c")
        start(stack, folder, environment, "slurmd", "-D", "-N", "localhost")
        assert wait_until(lambda: "idle" in ask(environment, "sinfo", "-h"), 30), log(folder)
        stack.callback(end_jobs, environment)
        yield environment


def end_jobs(environment):
    """Cancel all jobs while the daemons live; their processes would be left."""
    ask(environment, "scancel", "--full", f"--user={os.getuid()}")
    wait_until(lambda: not ask(environment, "squeue", "-h").strip(), 30)


def start(stack, folder, environment, name, *arguments):
    out = stack.enter_context((folder / f"{name}.out").open("wb"))
    process = subprocess.Popen([name, *arguments], env=environment, stdout=out, stderr=out)
    stack.callback(process.wait, 20)
    stack.callback(process.terminate)


def ask(environment, *command):
    how = {"capture_output": True, "text": True, "timeout": 60}
    return subprocess.run(command, env=environment, check=False, **how).stdout


def log(folder):
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.out")))


@pytest.fixture
def commands(slurm, tmp_path):
    """The environment of a user: `sparsegp` and `dask` are programs of this checkout."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sparsegp", "dask"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {name} "$@"\n')
        program.chmod(0o755)
    return {**slurm, **environment(), "PATH": f"{folder}:{slurm['PATH']}", "DATA": "digits"}


def ended(names, number, states):
    """Note the states of a job."""
    query = ["squeue", "-h", "-t", "all", "-j", number, "-o", "%T %r"]
    state = ask(names, *query).strip()
    if states[-1:] != [state]:
        states.append(state)
    return state.split(" ")[0] in ENDS


@pytest.mark.parametrize("script", SIZES)
def test_the_signal_of_walltime_requeues_the_job(script, commands, tmp_path):
    """Sent by hand as soon as there is a checkpoint, as SLURM counts time in minutes."""
    run, names, states = tmp_path / "run", commands | {"RUN": str(tmp_path / "run")}, list[str]()
    submit = ["sbatch", "--parsable", f"--chdir={tmp_path}", *SIZES[script], "--time=60"]
    number = ask(names, *submit, str(FOLDER / script), *RUN).strip()
    assert wait_until(lambda: any(run.glob("checkpoint-*.zip")) or ended(names, number, states), 60)
    ask(names, "scancel", "--batch", "--signal=TERM", number)
    over = wait_until(lambda: ended(names, number, states), 120)
    text = f"{states}\n{(tmp_path / f'sparsegp-{number}.out').read_text()}"
    assert over, text
    assert "PENDING BeginTime" in states, text
    assert states[-1].startswith("COMPLETED"), text
    assert "continue with: sparsegp train" in text
    out = tmp_path / "undisturbed"
    run_python("-m", "sparsegp", "train", "digits", "--out", out, *RUN)
    model, expected = (sparsegp.load(path) for path in (run, out))
    assert_same(model, expected, open_dataset("digits").test.X.compute())
    assert not list(tmp_path.glob("sparsegp-job-*")), "the key was left"


def running(names):
    return ask(names, "squeue", "-h", "-t", "running", "-o", "%i").split()


def test_jobs_as_workers(slurm, tmp_path, monkeypatch):
    """A cluster file: a job for each worker, TLS, a job in place of a lost one, nothing left."""
    pytest.importorskip("dask_jobqueue")
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm[name])
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cluster.yaml"
    ready = yaml.safe_load((FOLDER / "cluster.yaml").read_text())
    path.write_text(yaml.safe_dump({**ready, "workers": 2, "memory": "500MB", "seconds": 60}))
    with open_runtime(path) as runtime:
        assert runtime.client.scheduler_info()["address"].startswith("tls://")
        runtime.build(Tally, parts(2))
        assert len(set(runtime.map_blocks("process"))) == 2
        keys = list(tmp_path.glob(".dask-jobqueue*key*"))
        assert keys
        assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
        first, second = ask(slurm, "squeue", "-h", "-o", "%i").split()
        ask(slurm, "scancel", first)
        assert wait_until(lambda: running(slurm) == [second], 30)
        assert runtime.map_blocks("name") == ["block 0", "block 1"]

        def replaced():
            return len(runtime.map_blocks("name")) == len(running(slurm)) == 2

        assert wait_until(replaced, 90), "another job takes its place"
    assert wait_until(lambda: not ask(slurm, "squeue", "-h").strip(), 30)
