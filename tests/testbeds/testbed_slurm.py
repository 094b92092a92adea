"""A real Slurm on the hosts of a testbed: munge, a controller on this machine, a daemon on each host."""

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from testbed_hosts import Hosts, call, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue")
SETTINGS = """\
ClusterName=testbed
SlurmctldHost={head}({subnet}.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait={kill_wait_s}
UnkillableStepTimeout=30
SlurmdTimeout=15
SlurmctldTimeout=15
InactiveLimit=0
ReturnToService=2
TCPTimeout=2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime={grace_s}
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def why_not() -> str:
    """Why there can be no Slurm here; empty if there can."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    return f"the Slurm testbed needs {', '.join(missing)} (.ci/run installs them)" if missing else ""


class Slurm:
    """Partitions `main` and `urgent`, whose jobs push those of `main` out; short times throughout."""

    def __init__(self, hosts: Hosts, folder: Path, *, kill_wait_s: int = 10, grace_s: int = 20) -> None:
        """Start all daemons and wait for the nodes."""
        self.hosts, self.folder = hosts, folder
        self.conf = folder / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []
        (folder / "munge").mkdir(mode=0o755)
        (folder / "state").mkdir()
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        nodes = "".join(
            f"NodeName=node{number} NodeAddr={hosts.address(number)} Port=16818 CPUs=8\n" for number in hosts.numbers
        )
        settings = SETTINGS.format(
            head=os.uname().nodename.partition(".")[0], subnet=hosts.subnet, folder=folder, kill_wait_s=kill_wait_s,
            grace_s=grace_s, port=16900 + os.getpid() % 1000,
        )  # fmt: skip
        first, partitions = settings[: settings.index("PartitionName")], settings[settings.index("PartitionName") :]
        self.conf.write_text(first + nodes + partitions)
        # slurmd loads a plugin for cgroups although nothing here uses them; the one for v1 works with none mounted.
        old = " 2" in call("/usr/sbin/slurmd", "-V") and int(call("/usr/sbin/slurmd", "-V").split()[1][:2]) < 23
        (folder / "cgroup.conf").write_text(f"CgroupPlugin={'cgroup/v1' if old else 'disabled'}\n")
        self.env = {"SLURM_CONF": str(self.conf)}
        self._start("/usr/sbin/munged", "--foreground", f"--socket={folder}/munge/socket", f"--key-file={key}",
                    f"--pid-file={folder}/munge/pid", f"--log-file={folder}/munge/log",
                    f"--seed-file={folder}/munge/seed", "--force")  # fmt: skip
        wait_for((folder / "munge" / "socket").exists, 10, "munged")
        self._start("/usr/sbin/slurmctld", "-D", "-f", str(self.conf))
        for number in hosts.numbers:
            self.start_node(number)
        wait_for(self.usable, 40, f"the nodes of Slurm; see {folder}")

    def _start(self, *command: str) -> None:
        self._daemons.append(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        )

    def start_node(self, number: int) -> None:
        """Its daemon ends with the host."""
        place = ("nsenter", "-t", str(self.hosts.pid(number)), "-n", "-m", "-u", "-i", "-p", "--")
        self._start(*place, "/usr/sbin/slurmd", "-D", "-f", str(self.conf), "-N", f"node{number}")

    def ask(self, *command: str) -> str:
        """What one of Slurm's programs prints."""
        done = subprocess.run(
            command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout + done.stderr

    def usable(self) -> bool:
        states = self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()
        return states == ["idle"] * self.hosts.count

    def state(self, job: str) -> str:
        return self.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def job_of(self, run: Path, attempt: int = 1) -> str:
        """Number of the job that an attempt was submitted as."""
        return str(json.loads((run / "attempts" / str(attempt) / "job.json").read_text())["slurm"])

    def preempt(self) -> str:
        """A job that pushes out what runs in `main`; its number."""
        words = ("-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 2")
        return self.ask("sbatch", "--parsable", *words).strip()

    def clear(self) -> None:
        """Cancel what is left of a test."""
        jobs = self.ask("squeue", "-h", "-o", "%i").split()
        if jobs:
            self.ask("scancel", *jobs)
            wait_for(lambda: not self.ask("squeue", "-h", "-o", "%i").split(), 60, "the end of all jobs")

    def down(self) -> None:
        """Stop the daemons, the nodes' first."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(8)
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()
        time.sleep(0.2)
