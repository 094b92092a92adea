"""What every launcher takes and gives: a job, the plan made from it, and the job's state."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from dawnrun.recipe.schema import Site

StopHow = Literal["save", "now", "stacks"]
"""How a job is ended: save: workers may write a checkpoint first; now: killed; stacks: each prints where it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One thing to run: a training attempt or a validation.

    `folder` gets what the processes tell the launcher (started, failure and node files), `logs` what they print.
    `command` is what follows `python`, a module or a script; `site` has no `auto` left.
    """

    folder: Path
    logs: Path
    site: Site
    command: tuple[str, ...]


def devices_of_a_node(site: Site) -> int:
    """Devices that are asked for on every node: those of the busiest."""
    processes = site.world_size // site.nodes
    return max(processes, site.evaluators) if site.evaluator_node else processes + site.evaluators


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchPlan:
    """What would be started: files to be written, commands, variables added to the environment, remarks.

    `inputs`: for each command the file that its standard input begins with, followed by a beat; empty: none has one.
    """

    commands: tuple[tuple[str, ...], ...]
    files: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Text for `--dry-run` and `plan.txt`: remarks as comments, variables and commands as a shell reads them."""
        lines = [f"# {note}" for note in self.notes]
        for name, text in self.files.items():
            lines += [f"# file {name}:", text.rstrip("\n"), f"# end of {name}"]
        if self.inputs:
            lines += ["# each command beats: without a line a second the host ends its part"]
            return "\n".join([*lines, *map(_fed, self.commands, self.inputs), "wait"]) + "\n"
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(self.env.items())]
        lines += [shlex.join(command) for command in self.commands]
        return "\n".join(lines) + "\n"


def _fed(command: tuple[str, ...], file: str) -> str:
    """A shell line that feeds a file and a beat to a command, until the command has ended."""
    return f"{{ cat {shlex.quote(file)}; while sleep 1 && echo; do :; done; }} | {shlex.join(command)} &"


class JobStatus(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Launcher(Protocol):
    """Starts one job and watches over it."""

    def plan(self, job: Job) -> LaunchPlan:
        """Decide what is started; pure."""
        ...

    def submit(self, plan: LaunchPlan) -> None:
        """Start it; LaunchError if it is refused."""
        ...

    def status(self) -> JobStatus:
        """Where the job is now; never blocks for long."""
        ...

    def cancel(self, how: StopHow = "save") -> None:
        """Ask for its end; returns at once."""
        ...

    def close(self) -> None:
        """Let go of it; a job that lives by this process is stopped and waited for."""
        ...
