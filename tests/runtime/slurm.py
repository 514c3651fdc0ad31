"""A SLURM of one node for tests: munged, slurmctld and slurmd, as root, on loopback alone."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.processes import wait_until

PATH = f"{os.environ['PATH']}:/usr/sbin"
DAEMONS = ("munged", "slurmctld", "slurmd")
MISSING = [name for name in (*DAEMONS, "sbatch") if shutil.which(name, path=PATH) is None]
AVAILABLE = not MISSING and os.getuid() == 0

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


@contextmanager
def one_node_slurm() -> Iterator[dict[str, str]]:
    """Start the daemons; yields the environment in which sbatch and squeue find them."""
    with ExitStack() as stack:
        # short, as the path of a socket must be
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        for name in ("state", "spool"):
            (folder / name).mkdir()
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            ports = one.getsockname()[1], two.getsockname()[1]
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


def end_jobs(environment: dict[str, str]) -> None:
    """Cancel all jobs while the daemons live; their processes would be left."""
    ask(environment, "scancel", "--full", f"--user={os.getuid()}")
    wait_until(lambda: not ask(environment, "squeue", "-h").strip(), 30)


def start(
    stack: ExitStack, folder: Path, environment: dict[str, str], name: str, *arguments: str
) -> None:
    out = stack.enter_context((folder / f"{name}.out").open("wb"))
    process = subprocess.Popen([name, *arguments], env=environment, stdout=out, stderr=out)
    stack.callback(process.wait, 20)
    stack.callback(process.terminate)


def ask(environment: dict[str, str], *command: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout


def log(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.out")))
