"""What the nodes told of themselves, judged before anything is started on them: one finding a line, worst first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dawnrun.launch.checks import CHECKPOINT_BYTES
from dawnrun.launch.facts import EQUAL
from dawnrun.launch.network import is_loopback
from dawnrun.recipe.schema import Site
from dawnrun.text import size

Facts = Mapping[str, Any]
CLOCK_OFFSET_S = 1.0
"""The first failure is found by comparing clocks; a node farther off is named."""
SHM_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line about one node. `fatal`: the run would fail; `todo`: what to do about it."""

    node: str
    what: str
    todo: str
    fatal: bool = True

    def __str__(self) -> str:
        """`node2: what; to do`."""
        return f"{self.node}: {self.what}{'; ' if self.todo else ''}{self.todo}"


def judge(answers: Mapping[str, Facts], site: Site, *, here: Facts, nonce: str) -> list[Finding]:
    """Findings about all nodes, fatal ones first. `here`: this machine's versions; `nonce`: what a shared file holds."""
    found = [finding for node, facts in answers.items() for finding in _judge_one(node, facts, site, here, nonce)]
    found += _judge_staging(answers, site)
    hosts = Counter(str(facts["host"]) for facts in answers.values())
    found += [
        Finding(node=node, what=f"calls itself {facts['host']}, as another node does", todo="", fatal=False)
        for node, facts in answers.items()
        if hosts[str(facts["host"])] > 1
    ]
    return sorted(found, key=lambda finding: not finding.fatal)


def _judge_one(node: str, facts: Facts, site: Site, here: Facts, nonce: str) -> list[Finding]:
    found = []
    for name in EQUAL:
        if facts[name] != here[name]:
            what = f"{name} is {facts[name]} there and {here[name]} here"
            found.append(Finding(node=node, what=what, todo="install the same on all"))
    if facts["nonce"] != nonce:
        what = f"run_root {site.run_root} is not the folder that it is here"
        found.append(Finding(node=node, what=what, todo="choose a folder that all nodes share"))
    elif (facts["free_bytes"] or 0) < CHECKPOINT_BYTES:
        what = f"run_root has {size(facts['free_bytes'] or 0)} free"
        found.append(Finding(node=node, what=what, todo=f"a checkpoint takes {size(CHECKPOINT_BYTES)}"))
    found += [Finding(node=node, what=problem, todo="data_root is looked up on each node") for problem in facts["data"]]
    if site.interface is not None and not facts["interfaces"].get(site.interface):
        there = ", ".join(facts["interfaces"])
        found.append(Finding(node=node, what=f"interface {site.interface} is not there", todo=f"there are {there}"))
    found += _judge_mildly(node, facts)
    return found


def _judge_staging(answers: Mapping[str, Facts], site: Site) -> list[Finding]:
    """Data sets that are not on a node's own disk yet, and whether they would fit there."""
    sizes: Mapping[str, int | None] = next(
        (facts["set_bytes"] for facts in answers.values() if facts.get("set_bytes")), {}
    )
    found = []
    for node, facts in answers.items():
        names = facts.get("not_staged", [])
        if names:
            what = f"not in local_data_root {site.local_data_root}: {', '.join(names)}"
            todo = "copy it there with: dawnrun data stage --config RECIPE --site SITE"
            found.append(Finding(node=node, what=what, todo=todo))
        needed, free = sum(sizes.get(name) or 0 for name in names), min(facts["local_free_bytes"].values(), default=0)
        if names and needed > (free or 0):
            what = f"local_data_root has {size(free or 0)} free, the data sets take {size(needed)}"
            found.append(Finding(node=node, what=what, todo="name another disk, or leave local_data_root out"))
    return found


def _judge_mildly(node: str, facts: Facts) -> list[Finding]:
    """What may be well."""
    found = []
    if abs(facts["offset_s"]) > CLOCK_OFFSET_S:
        what = f"its clock is {facts['offset_s']:+.1f} s off"
        found.append(Finding(node=node, what=what, todo="set it: failures are put in order by it", fatal=False))
    return found + judge_shared_memory(node, facts["shm_bytes"])


def judge_shared_memory(node: str, num_bytes: int | None) -> list[Finding]:
    """Shared memory is 64 MB in many containers; what needs more ends by a bus error."""
    if num_bytes is None or num_bytes >= SHM_BYTES:
        return []
    what, todo = f"shared memory: {size(num_bytes)}", "collectives between GPUs may need more: docker run --shm-size=8g"
    return [Finding(node=node, what=what, todo=todo, fatal=False)]


def rendezvous_address(facts: Facts, interface: str | None) -> str | None:
    """The address of node 0 at which the agents meet: the interface's, the one ssh reached it by, or its first."""
    if interface is not None:
        return next(iter(facts["interfaces"].get(interface, ())), None)
    by_ssh = str(facts.get("ssh_address") or "")
    if by_ssh and not is_loopback(by_ssh):
        return by_ssh
    own = [address for addresses in facts["interfaces"].values() for address in addresses]
    return next((address for address in own if not is_loopback(address)), None)


def table(findings: Sequence[Finding]) -> str:
    """One line each, fatal ones first."""
    return "\n".join(str(finding) for finding in findings)
