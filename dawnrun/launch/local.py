"""Runs a job on this machine: one process directly, more through torchrun's elastic agent, each under the guard."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

from dawnrun.errors import LaunchError
from dawnrun.launch import beside
from dawnrun.launch.base import Job, JobStatus, LaunchPlan, StopHow
from dawnrun.launch.guard import POLL_S

GRACE_S = 60.0
"""Time for the workers to save and end after they were asked to."""

LOOPBACK = "127.0.0.1"

STALE = re.compile(
    r"PET_.*|TORCHELASTIC_.*|TORCH_ELASTIC_.*|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE"
    r"|ROLE_RANK|ROLE_WORLD_SIZE|ROLE_NAME|MASTER_ADDR|MASTER_PORT"
)
"""Variables of an outer job (torchrun's flags have PET_ defaults) that would confuse this one."""


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what an outer job left in it."""
    return {name: value for name, value in environment.items() if not STALE.fullmatch(name)}


def worker_environment(*, threads: int) -> dict[str, str]:
    """What every worker gets, whoever starts it."""
    return {
        "PYTHONUNBUFFERED": "1",
        # Stacks of all threads in the log, on a crash and when the guard asks for them.
        "PYTHONFAULTHANDLER": "1",
        "OMP_NUM_THREADS": str(threads),
    }


class LocalLauncher:
    """Holds the lease of one job on this machine: should this process die, the guard ends the job."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._guard: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def plan(self, job: Job) -> LaunchPlan:
        """The guard around one Python process, or around torchrun for more."""
        site = job.site
        processes = site.world_size
        if processes == 1:
            output, command = job.logs / "rank-000.log", (sys.executable, "-u", *job.command)
        else:
            output, command = job.logs / "node-0.log", (*torchrun(job), *job.command)
        guard = (
            *(sys.executable, "-m", "dawnrun.launch.guard", "--record", str(job.folder / "node-0.json")),
            *("--output", str(output), "--grace-s", f"{GRACE_S:g}"),
            *(("--beside", json.dumps(evaluators(job))) if job.site.evaluators else ()),
            *("--", *command),
        )
        env = worker_environment(threads=site.threads_per_process or 1)
        if processes > 1:
            # Without a name gloo asks what the machine's own host name resolves to, which may be nothing.
            env |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": f"{GRACE_S:g}"}
        return LaunchPlan(commands=(guard,), env=env | dict(site.env), notes=("on this machine",))

    def submit(self, plan: LaunchPlan) -> None:
        """Start the guard; LaunchError if the system refuses."""
        (command,) = plan.commands
        try:
            self._guard = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**clean_environment(os.environ), **plan.env},
                start_new_session=True,  # Ctrl-C reaches this process alone, which then decides
            )
        except OSError as error:
            raise LaunchError(f"the node guard cannot be started: {error.strerror}: {command[0]}") from error

    def status(self) -> JobStatus:
        """From the guard's end; CANCELLED if it came after `cancel`."""
        if self._guard is None:
            return JobStatus.UNKNOWN
        code = self._guard.poll()
        if code is None:
            return JobStatus.RUNNING
        return JobStatus.CANCELLED if self._cancelled else JobStatus.FAILED if code else JobStatus.SUCCEEDED

    def cancel(self, how: StopHow = "save") -> None:
        """Signal the guard: its second SIGTERM kills at once."""
        if self._guard is None or self._guard.poll() is not None:
            return
        if how == "stacks":
            self._signal(signal.SIGUSR1)
            return
        self._signal(signal.SIGTERM)
        if how == "now" and not self._cancelled:
            # Two signals sent together may arrive as one.
            with suppress(subprocess.TimeoutExpired):
                self._guard.wait(3 * POLL_S)
            self._signal(signal.SIGTERM)
        self._cancelled = True

    def close(self) -> None:
        """End the lease and wait for the guard to leave; the job is stopped if it still runs."""
        if self._guard is not None:
            if self._guard.stdin:
                with suppress(OSError):
                    self._guard.stdin.close()
            self._guard.wait()

    def _signal(self, number: int) -> None:
        assert self._guard is not None
        with suppress(ProcessLookupError):
            self._guard.send_signal(number)


def evaluators(job: Job) -> tuple[str, ...]:
    """The command that starts a job's evaluators on the devices behind those of the training."""
    first_device = job.site.world_size // job.site.nodes
    return beside.command(
        job.folder,
        job.logs,
        first_device=first_device,
        count=job.site.evaluators,
        worker=(sys.executable, "-u", *job.command),
    )


def torchrun(job: Job) -> tuple[str, ...]:
    """The elastic agent's command line, up to the program it starts.

    Port 0: the agent's store takes a free port and keeps it, so no other job can come between.
    """
    return (
        *(job.site.engine or (sys.executable, "-u", "-m", "torch.distributed.run")),
        "--nnodes=1",
        f"--nproc-per-node={job.site.world_size}",
        "--max-restarts=0",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={LOOPBACK}:0",
        "--rdzv-conf=is_host=true,join_timeout=120",
        f"--rdzv-id={job.folder.parent.parent.name}-{job.folder.name}",
        f"--local-addr={LOOPBACK}",
        f"--log-dir={job.logs / 'torchrun'}",
    )
