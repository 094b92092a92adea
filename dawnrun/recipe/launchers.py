"""The launchers that a site can name, with their settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from dawnrun.recipe.fields import Line, Part, Positive, Word
from dawnrun.recipe.hosts import expand


class Local(Part):
    """Processes on the machine that the command runs on."""


class Ssh(Part):
    """One connection of the system's ssh to each host."""

    hosts: tuple[Word, ...] = Field(
        min_length=1, description="hosts in the order of their ranks, as ssh takes them; n[08-11] is four of them"
    )
    config: Path | None = Field(None, description="ssh_config file; left out: the user's own")
    options: tuple[Line, ...] = Field((), description="further arguments of ssh, such as [-p, '2222']")
    python: str | None = Field(None, description="Python on the hosts; left out: the same path as here")
    directory: Path | None = Field(None, description="folder to run in; left out: the same path as here")

    @field_validator("hosts")
    @classmethod
    def _expandable(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Every list and range can be expanded, and no host is named twice."""
        names = [name for host in hosts for name in expand(host)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"named more than once: {', '.join(twice)}")
        return hosts

    def host_names(self) -> tuple[str, ...]:
        """Every host, ranges expanded."""
        return tuple(name for host in self.hosts for name in expand(host))


class Slurm(Part):
    """A batch job with one task on each node; inside an allocation, a step of it."""

    partition: Word | None = Field(None, description="partition; left out: the cluster's default")
    account: Word | None = Field(None, description="account that is charged")
    constraint: Word | None = Field(None, description="features that the nodes must have")
    time_limit: Word | None = Field(None, description="time limit as Slurm writes it, such as 3:00:00")
    cpus_per_node: Positive | None = Field(None, description="CPUs of each node's task; left out: whole nodes")
    options: tuple[Line, ...] = Field((), description="further arguments of sbatch, such as [--qos=high]")
    requeue: bool = Field(True, description="go back into the queue after a preemption or the time limit")
    signal: str = Field("TERM", pattern=r"^[A-Z0-9]+$", description="signal by which the script is warned of its end")
    warning_s: Positive = Field(120, description="seconds before the time limit at which it is warned")
    python: str | None = Field(None, description="Python on the nodes; left out: the same path as here")
    directory: Path | None = Field(None, description="folder to run in; left out: the same path as here")


class Kubernetes(Part):
    """An indexed Job with one pod for each node, and a headless Service."""

    image: Word = Field(description="container image with dawnrun in it")
    namespace: Word = Field("default", description="namespace of the objects")
    python: str = Field("python3", description="Python in the image")
    gpu_resource: Word = Field("nvidia.com/gpu", description="resource that is asked for, one for each process")
    cpus: Positive | None = Field(None, description="CPUs of each pod")
    memory: Word | None = Field(None, description="memory of each pod, such as 64Gi")
    shared_memory: Word = Field("16Gi", description="size of /dev/shm, in memory; the default of 64 MB is too small")
    claims: Mapping[str, Word] = Field({}, description="mount path: persistent volume claim, for data and runs")
    node_selector: Mapping[str, str] = Field({}, description="labels that a pod's node must have")


class Launcher(Part):
    """How processes are started; exactly one."""

    local: Local | None = Field(None, description="processes on this machine: `{}`")
    ssh: Ssh | None = Field(None, description="hosts that ssh reaches")
    slurm: Slurm | None = Field(None, description="a cluster with Slurm")
    kubernetes: Kubernetes | None = Field(None, description="a cluster with Kubernetes")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        """One way of starting processes must be named."""
        if len([name for name in type(self).model_fields if getattr(self, name) is not None]) != 1:
            raise ValueError(f"name exactly one of: {', '.join(type(self).model_fields)}; for example local: {{}}")
        return self
