"""One node's part of a job, as it travels from the launcher to the node."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from dawnrun.launch.base import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """One node's part of a job. `address` and `port`: where the agents meet, on node 0; a name is looked up here.

    `versions` and `needs` (checks.node_needs): what this node must have, where nobody asked before. `files`: texts of the run directory, relative to it, that node 0 writes where nobody could do it before.
    """

    rank: int
    nodes: int
    processes: int
    rendezvous: str
    address: str
    port: int
    folder: str
    logs: str
    command: tuple[str, ...]
    device: str
    grace_s: float
    threads: int | None = None
    interface: str | None = None
    engine: tuple[str, ...] = ()
    environment_archive: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)
    evaluators: int = 0
    evaluator_node: bool = False

    @property
    def machines(self) -> int:
        """All that take part; `nodes` train."""
        return self.nodes + self.evaluator_node

    @property
    def trains(self) -> bool:
        """Whether this node has ranks of the training."""
        return self.rank < self.nodes

    @property
    def evaluates(self) -> bool:
        """Whether the evaluators run on this node: the one behind those that train, or the first of them."""
        return self.evaluators > 0 and self.rank == (self.nodes if self.evaluator_node else 0)

    @classmethod
    def of(cls, job: "Job", *, rendezvous: str, grace_s: float, address: str = "", port: int = 0) -> Self:
        """The first node's; the others' differ in `rank` alone. Without address and port the meeting place is open."""
        site = job.site
        return cls(
            rank=0,
            nodes=site.nodes,
            processes=site.world_size // site.nodes,
            rendezvous=rendezvous,
            address=address,
            port=port,
            folder=str(job.folder),
            logs=str(job.logs),
            command=job.command,
            device=site.device,
            grace_s=grace_s,
            threads=site.threads_per_process,
            interface=site.interface,
            engine=site.engine,
            environment_archive=None if site.environment_archive is None else str(site.environment_archive),
            env=dict(site.env),
            evaluators=site.evaluators,
            evaluator_node=site.evaluator_node,
        )

    def text(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """From what `text` wrote."""
        return cls(**{**fields, "command": tuple(fields["command"]), "engine": tuple(fields["engine"])})
