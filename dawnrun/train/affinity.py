"""Which cores a process keeps to: its share of the machine's, on one NUMA node where that is possible."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

SYSTEM = Path("/sys/devices/system")
OWN_SETTINGS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""Environment variables by which a user says where threads run."""
Cores = tuple[tuple[int, ...], ...]
"""Physical cores, each with the numbers of its hardware threads."""


def keep_to_share(
    threads: int | None,
    *,
    place: int,
    number: int,
    environment: Mapping[str, str] = os.environ,
    system: Path = SYSTEM,
) -> str | None:
    """Bind this process, and threads that it starts from now on, to its share; says which, or None if it is left alone.

    It is the one at `place`, from 0, of `number` processes on this machine.

    It is where it is alone on the machine, where it may not use the whole machine anyway (a scheduler or container has
    decided), where the environment binds threads, and where the site asks for another number of `threads` than its share.
    """
    if number == 1 or not hasattr(os, "sched_getaffinity") or any(name in environment for name in OWN_SETTINGS):
        return None
    allowed = os.sched_getaffinity(0)
    if len(allowed) < (os.cpu_count() or 1) or threads not in (None, len(allowed) // number):
        return None
    nodes = numa_nodes(allowed, system)
    own = share(nodes, place=place, number=number)
    if not own:
        return None
    os.sched_setaffinity(0, own)
    on = [str(index) for index, cores in enumerate(nodes) if own & {cpu for core in cores for cpu in core}]
    return f"cores {_ranges(sorted(own))} of {len(allowed)}, NUMA node{'s' * (len(on) > 1)} {', '.join(on)}"


def share(nodes: Sequence[Cores], *, place: int, number: int) -> set[int]:
    """Hardware threads of one of `number` processes: whole cores, no two processes on one; none if there are fewer cores.

    Processes are spread over the nodes in order, as devices are numbered on most machines.
    """
    if number <= len(nodes):
        mine = nodes[place * len(nodes) // number : (place + 1) * len(nodes) // number]
        return {cpu for cores in mine for core in cores for cpu in core}
    node_of = [other * len(nodes) // number for other in range(number)]
    cores = nodes[node_of[place]]
    beside = [other for other in range(number) if node_of[other] == node_of[place]]
    rank, among = beside.index(place), len(beside)
    own = cores[rank * len(cores) // among : (rank + 1) * len(cores) // among]
    return {cpu for core in own for cpu in core}


def numa_nodes(allowed: set[int], system: Path = SYSTEM) -> list[Cores]:
    """The cores of each NUMA node that has some; one node where the system tells of none."""
    lists = [_read(folder / "cpulist") for folder in sorted(system.glob("node/node[0-9]*"), key=_number)]
    found = [cores for numbers in lists if (cores := _cores(numbers & allowed, system))]
    return found if sum(len(core) for cores in found for core in cores) == len(allowed) else [_cores(allowed, system)]


def _cores(numbers: set[int], system: Path) -> Cores:
    """Hardware threads by the core that they share."""
    siblings = {
        number: _read(system / f"cpu/cpu{number}/topology/thread_siblings_list") & numbers for number in numbers
    }
    return tuple(sorted({tuple(sorted(siblings[number] | {number})) for number in numbers}))


def _read(path: Path) -> set[int]:
    """Numbers in a file like `0-3,8-11`; none if there is no such file."""
    try:
        parts = [part.split("-") for part in path.read_text().strip().split(",") if part]
        return {number for first, *last in parts for number in range(int(first), int((last or [first])[0]) + 1)}
    except (OSError, ValueError):
        return set()


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("node"))


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3,8-11`."""
    breaks = [i for i in range(len(numbers)) if i == 0 or numbers[i] != numbers[i - 1] + 1]
    parts = [numbers[first:stop] for first, stop in zip(breaks, [*breaks[1:], len(numbers)], strict=True)]
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
