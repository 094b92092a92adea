"""Which cores a process keeps to: whole cores of its own, near one another, and not where somebody else has decided."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dawnrun.train.affinity import OWN_SETTINGS, keep_to_share, numa_nodes, share

MACHINES = {
    # nodes, cores of a node, hardware threads of a core
    "one node": (1, 6, 1),
    "two sockets with SMT": (2, 4, 2),
    "four nodes": (4, 3, 2),
}


def make_system(folder: Path, nodes: int, cores: int, threads: int) -> int:
    """/sys as Linux numbers it: first the first hardware thread of every core, then the second ones. Returns how many."""
    total = nodes * cores
    for node in range(nodes):
        first = node * cores
        lists = ",".join(f"{first + t * total}-{first + cores - 1 + t * total}" for t in range(threads))
        (folder / f"node/node{node}").mkdir(parents=True)
        (folder / f"node/node{node}/cpulist").write_text(lists + "\n")
    for cpu in range(total * threads):
        place = folder / f"cpu/cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(",".join(str(cpu % total + t * total) for t in range(threads)))
    (folder / f"node/node{nodes}").mkdir()
    (folder / f"node/node{nodes}/cpulist").write_text("\n")  # memory alone
    return total * threads


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("local_world", [1, 2, 3, 4, 6])
def test_whole_cores_of_its_own_on_few_nodes(tmp_path: Path, machine: str, local_world: int) -> None:
    num_nodes, cores, threads = MACHINES[machine]
    number = make_system(tmp_path, num_nodes, cores, threads)
    nodes = numa_nodes(set(range(number)), tmp_path)
    assert len(nodes) == num_nodes and all(len(node) == cores for node in nodes)
    shares = [share(nodes, place=rank, number=local_world) for rank in range(local_world)]
    assert set().union(*shares) == set(range(number)) and sum(map(len, shares)) == number
    for own in shares:
        assert all(cpu % (number // threads) in {each % (number // threads) for each in own} for cpu in own)
        assert {cpu + number // threads for cpu in own if cpu < number // threads} <= own or threads == 1
        on = [node for node in nodes if own & {cpu for core in node for cpu in core}]
        assert len(on) <= max(1, -(-num_nodes // local_world))


def test_fewer_cores_than_processes(tmp_path: Path) -> None:
    number = make_system(tmp_path, 1, 2, 1)
    nodes = numa_nodes(set(range(number)), tmp_path)
    assert [bool(share(nodes, place=rank, number=3)) for rank in range(3)].count(False) == 1


def test_only_what_is_allowed_is_shared(tmp_path: Path) -> None:
    make_system(tmp_path, 2, 2, 2)
    assert numa_nodes({0, 1, 4, 6}, tmp_path) == [((0, 4), (1,)), ((6,),)]


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    assert numa_nodes({0, 1, 2}, tmp_path) == [((0,), (1,), (2,))]


@pytest.fixture
def bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """A machine of two sockets with 4 cores of 2 threads each; what processes are bound to."""
    number = make_system(tmp_path, 2, 4, 2)
    calls: list[set[int]] = []
    monkeypatch.setattr(os, "cpu_count", lambda: number)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(number)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: calls.append(cpus))
    return calls


@pytest.mark.parametrize("threads", [None, 8])
def test_a_process_is_bound_to_its_share(tmp_path: Path, bound: list[set[int]], threads: int | None) -> None:
    told = keep_to_share(threads, place=1, number=2, environment={}, system=tmp_path)
    assert told == "cores 4-7,12-15 of 16, NUMA node 1" and bound == [{4, 5, 6, 7, 12, 13, 14, 15}]


@pytest.mark.parametrize(
    ("threads", "number", "environment", "num_allowed"),
    [
        (3, 2, {}, 16),
        (None, 1, {}, 16),
        (None, 2, {"OMP_PROC_BIND": "true"}, 16),
        (None, 2, {"GOMP_CPU_AFFINITY": "0-3"}, 16),
        (None, 2, {}, 15),
    ],
    ids=["threads of the site", "alone", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "a mask already"],
)
def test_what_somebody_has_decided_stays(
    tmp_path: Path,
    bound: list[set[int]],
    monkeypatch: pytest.MonkeyPatch,
    threads: int | None,
    number: int,
    environment: dict[str, str],
    num_allowed: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(num_allowed)))
    assert (
        keep_to_share(threads, place=0, number=number, environment=environment, system=tmp_path) is None and not bound
    )


def test_on_this_machine() -> None:
    """The real /sys and the real call, in a process of its own."""
    if len(os.sched_getaffinity(0)) < max(2, os.cpu_count() or 1):
        pytest.skip("this process may not use a machine of several cores")
    ask = (
        "import os; from dawnrun.train.affinity import keep_to_share; told = keep_to_share(None, place=1, number=2);"
        "print(told is not None and 0 < len(os.sched_getaffinity(0)) < os.cpu_count())"
    )
    environment = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", ask], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True\n", done.stderr
