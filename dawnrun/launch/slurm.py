"""Runs a job under Slurm: a batch script that is submitted, or a step of the allocation that this process is in."""

import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dawnrun import __version__
from dawnrun.errors import LaunchError
from dawnrun.launch.base import Job, JobStatus, LaunchPlan, StopHow, devices_of_a_node
from dawnrun.launch.batch import meet
from dawnrun.launch.facts import versions
from dawnrun.launch.node import EXIT_PREEMPTED
from dawnrun.launch.order import Order
from dawnrun.launch.outcome import read_node
from dawnrun.launch.queue import ASK_LIMIT_S, REQUEUED, job_status, misses_a_node
from dawnrun.recipe.launchers import Slurm
from dawnrun.recipe.schema import Site

GRACE_S = 20.0
"""Less than Slurm's KillWait (30 s) less its margin: the workers must have ended before Slurm kills them."""
ASK_EVERY_S = 2.0
LOST_S = 10.0
"""Once one node has ended badly, time for the others to obey the order to end; one that does not is gone."""


def order_of(job: Job, needs: Mapping[str, Any]) -> Order:
    """The order of every node, its rendezvous still open; `needs`: what each node looks for before it starts."""
    order = Order.of(job, rendezvous=job.folder.parent.parent.name, grace_s=GRACE_S)
    return replace(order, versions=versions(), needs=dict(needs))


def script(job: Job) -> str:
    """The batch script."""
    site, slurm = job.site, job.site.launcher.slurm
    assert slurm is not None
    run = job.folder.parent.parent
    environment = Environment(
        loader=PackageLoader("dawnrun.launch"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - a shell script; every value goes through `quote`
    )
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    return environment.get_template("job.sbatch.j2").render(
        version=__version__,
        options=[_directive(option) for option in batch_options(job, slurm)],
        run=run,
        python=slurm.python or sys.executable,
        directory=slurm.directory or Path.cwd(),
        attempt=int(job.folder.name),
        signal=slurm.signal,
        pattern=str(run).replace("%", "%%"),
        steps=step_options(job, slurm),
        requeue=slurm.requeue and site.nodes > 0,
    )


def _directive(option: str) -> str:
    """An `#SBATCH` line's option: Slurm takes quotes there as a shell does."""
    name, equals, value = option.partition("=")
    return f"{name}{equals}{shlex.quote(value)}" if equals else option


def batch_options(job: Job, slurm: Slurm) -> list[str]:
    """What sbatch is asked for."""
    run = job.folder.parent.parent
    options = [f"--job-name={run.name}", *node_options(job.site, slurm)]
    options += [f"--signal=B:{slurm.signal}@{slurm.warning_s}"]
    options += ["--requeue", "--open-mode=append"] if slurm.requeue else ["--no-requeue"]
    return [*options, f"--output={str(run).replace('%', '%%')}/logs/slurm-%j.log", *slurm.options]


def node_options(site: Site, slurm: Slurm) -> list[str]:
    """Which nodes, and what of them."""
    options = [f"--nodes={site.machines}", "--ntasks-per-node=1"]
    if site.device != "cpu":
        options.append(f"--gpus-per-node={devices_of_a_node(site)}")
    options.append(f"--cpus-per-task={slurm.cpus_per_node}" if slurm.cpus_per_node else "--exclusive")
    named = {"partition": slurm.partition, "account": slurm.account, "constraint": slurm.constraint}
    return options + [f"--{name}={value}" for name, value in {**named, "time": slurm.time_limit}.items() if value]


def ask_command(site: Site, slurm: Slurm, question: Path) -> tuple[str, ...]:
    """One task a node that answers a question."""
    node = (slurm.python or sys.executable, "-u", "-m", "dawnrun.launch.node", "--question", str(question))
    where = (f"--chdir={slurm.directory or Path.cwd()}", "--quiet", "--kill-on-bad-exit=0")
    return ("srun", *node_options(site, slurm), f"--ntasks={site.machines}", *where, *node)


def step_options(job: Job, slurm: Slurm) -> list[str]:
    """What srun is asked for; it does not take the number of CPUs from sbatch."""
    nodes = job.site.machines
    options = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    options += [f"--cpus-per-task={slurm.cpus_per_node}"] if slurm.cpus_per_node else []
    return [*options, "--kill-on-bad-exit=1", "--wait=60", "--cpu-bind=none"]


class SlurmLauncher:
    """One job of a cluster. It lives without this process, which only watches; inside an allocation it is a step."""

    def __init__(
        self, slurm: Slurm, *, needs: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        """Nothing is submitted yet. `needs`: what each node looks for before it starts (checks.node_needs)."""
        self._slurm, self._needs, self._environment = slurm, needs or {}, environment
        self._folder: Path | None = None
        self._number: str | None = None
        self._step: subprocess.Popen[bytes] | None = None
        self._asked, self._state, self._ran = 0.0, JobStatus.QUEUED, False
        self._num_nodes, self._bad_at, self._given_up = 1, math.inf, False

    @property
    def inside(self) -> bool:
        """Whether this process is in an allocation; the variables of a step alone would not say so."""
        return "SLURM_JOB_ID" in self._environment and "SLURM_JOB_NODELIST" in self._environment

    def plan(self, job: Job) -> LaunchPlan:
        """A batch script and its submission, or the step."""
        order = order_of(job, self._needs)
        name = str(job.folder / "order.json")
        if self.inside:
            order = meet(order, self._environment)
            node = (self._slurm.python or sys.executable, "-u", "-m", "dawnrun.launch.node", "--order", name)
            log = f"--output={str(job.logs).replace('%', '%%')}/srun-%t.log"
            command = ("srun", *step_options(job, self._slurm), log, *node)
            note = f"in the allocation {self._environment['SLURM_JOB_ID']}"
            return LaunchPlan(commands=(command,), files={name: order.text()}, notes=(note,))
        path = str(job.folder / "job.sh")
        return LaunchPlan(
            commands=(("sbatch", "--parsable", path),),
            files={name: order.text(), path: script(job)},
            notes=("on Slurm",),
        )

    def submit(self, plan: LaunchPlan) -> None:
        """Hand it over. LaunchError with Slurm's own words if it is refused."""
        for name, text in plan.files.items():
            Path(name).write_text(text, encoding="utf-8", errors="surrogateescape")
        (command,) = plan.commands
        self._folder = Path(next(iter(plan.files))).parent
        self._num_nodes = Order.read(json.loads(plan.files[str(self._folder / "order.json")])).nodes
        try:
            if self.inside:
                self._step = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
                return
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise LaunchError(
                f"{command[0]}: {(error.strerror or str(error)).lower()}; is this a Slurm cluster?"
            ) from error
        if done.returncode:
            raise LaunchError(f"{shlex.join(command)}: {done.stderr.strip()}\nnothing was started")
        self._number = done.stdout.strip().partition(";")[0]
        (self._folder / "job.json").write_text(json.dumps({"slurm": self._number}) + "\n", encoding="utf-8")

    def status(self) -> JobStatus:
        """As the queue says; of a job that it has forgotten, as the run directory says."""
        assert self._folder is not None
        if self._step is not None:
            code = self._step.poll()
            good = (0, EXIT_PREEMPTED)
            return JobStatus.RUNNING if code is None else JobStatus.SUCCEEDED if code in good else JobStatus.FAILED
        assert self._number is not None
        now = time.monotonic()
        if now - self._asked >= ASK_EVERY_S:
            self._asked = now
            self._ran = self._ran or bool(read_node(self._folder))  # before the question: its answer is newer
            self._state = job_status(self._number, self._folder) or self._state
            self._look_for_losses()
        if self._given_up:
            return JobStatus.FAILED
        requeued = self._ran and self._state is JobStatus.QUEUED
        if self._state is JobStatus.RUNNING:
            self._ran = True
        if requeued or (self._folder.parent / str(int(self._folder.name) + 1)).exists():
            return JobStatus.CANCELLED  # back in the queue, or on from there: this attempt is over
        return self._state

    def _look_for_losses(self) -> None:
        """Slurm needs SlurmdTimeout or twice that to miss a node; workers that missed a peer have ended long before."""
        assert self._folder is not None and self._number is not None
        records = [read_node(self._folder, node) for node in range(self._num_nodes)]
        if any(record.get("ended") and (record.get("exit_code") != 0) for record in records):
            self._bad_at = min(self._bad_at, time.monotonic())
        silent = [node for node, record in enumerate(records) if record and not record.get("ended")]
        if self._state is not JobStatus.RUNNING or time.monotonic() - self._bad_at < LOST_S:
            return
        if not silent and not misses_a_node(self._number):  # over the shared disk a node that is cut off is still heard
            return
        for node in silent:
            fields = {"host": str(records[node].get("host")), "time": time.time() - LOST_S,
                      "message": f"it did not end within {LOST_S:g} s of another node's failure"}  # fmt: skip
            (self._folder / f"lost-node-{node}.json").write_text(json.dumps(fields) + "\n", encoding="utf-8")
        self._given_up = True
        if self._slurm.requeue:
            (self._folder / REQUEUED).touch()
        _run("scontrol", "requeue", self._number) if self._slurm.requeue else _run("scancel", self._number)

    def cancel(self, how: StopHow = "save") -> None:
        """An order that the guards read; a job that waits is taken out of the queue."""
        assert self._folder is not None
        (self._folder / "cancelled").touch()
        if self._number is not None and self.status() is JobStatus.QUEUED:
            _run("scancel", self._number)
            return
        stopped = (self._folder / "orders").exists()
        (self._folder / "orders").write_text("now" if stopped and how == "save" else how, encoding="utf-8")

    def close(self) -> None:
        """A batch job goes on; a step is waited for."""
        if self._step is not None:
            if self._step.poll() is None:
                self.cancel("now")
            self._step.wait()


def _run(*words: str) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(words, capture_output=True, timeout=ASK_LIMIT_S, check=False)
