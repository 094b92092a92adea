"""One node's part of a job: its address, its agent's command, its environment; what nodes say is judged."""

import sys
from dataclasses import replace

import pytest

from dawnrun.launch import agent, node
from dawnrun.launch.agent import agent_command, environment, where
from dawnrun.launch.facts import code_sha256, node_facts, versions
from dawnrun.launch.network import HeldPort, interface_of, interfaces, is_loopback, reach
from dawnrun.launch.order import Order
from dawnrun.launch.preflight import judge, rendezvous_address
from dawnrun.recipe.schema import Site

ORDER = Order(
    rank=0, nodes=2, processes=4, rendezvous="run-1", address="10.0.0.1", port=20_001, folder="/runs/r/attempts/1",
    logs="/runs/r/logs/1", command=("-m", "dawnrun.train"), device="cuda", grace_s=60, threads=3,
)  # fmt: skip
THERE = {"lo": ("127.0.0.1",), "eth0": ("10.0.0.1",), "ib0": ("10.1.0.1", "fd00::1")}


@pytest.fixture
def network(monkeypatch):
    monkeypatch.setattr(agent, "interfaces", lambda: THERE)
    monkeypatch.setattr(agent, "own_address", lambda peer: {"10.0.0.9": "10.0.0.1", "127.0.0.1": "127.0.0.1"}[peer])


def test_the_interface_of_the_route(network):
    """C32: the address of the first node, on the others the one on the way to it; never the loopback's for two nodes."""
    assert where(ORDER) == ("10.0.0.1", "10.0.0.1", "eth0")
    assert where(replace(ORDER, rank=1, address="10.0.0.9")) == ("10.0.0.9", "10.0.0.1", "eth0")
    with pytest.raises(OSError, match="is the loopback; name `interface` in the site"):
        where(replace(ORDER, rank=1, address="127.0.0.1"))
    assert where(replace(ORDER, nodes=1, address="127.0.0.1"))[2] == "lo"


def test_a_named_interface(network):
    """C32: the user's setting wins; one that is not there is told with those that are."""
    assert where(replace(ORDER, interface="ib0")) == ("10.1.0.1", "10.1.0.1", "ib0")
    with pytest.raises(OSError, match="interface nosuch0: not here, or without an address; there are lo, eth0, ib0"):
        where(replace(ORDER, interface="nosuch0"))


def test_the_agent_is_told_who_is_the_host():
    command = agent_command(ORDER, "10.0.0.1", "10.0.0.1")
    assert command[:4] == (sys.executable, "-u", "-m", "torch.distributed.run")
    assert {"--nnodes=2", "--nproc-per-node=4", "--rdzv-endpoint=10.0.0.1:20001", "--rdzv-id=run-1"} <= set(command)
    assert any(word.startswith("--rdzv-conf=is_host=true") for word in command)
    other = agent_command(replace(ORDER, rank=1, engine=("ft_launcher",)), "fd00::1", "10.0.0.2")
    assert other[0] == "ft_launcher" and "--rdzv-endpoint=[fd00::1]:20001" in other
    assert "--local-addr=10.0.0.2" in other
    assert any(word.startswith("--rdzv-conf=is_host=false") for word in other)


def test_the_environment():
    """C32: both libraries get one existing name; an exclusion list of the user's goes to NCCL only."""
    ours = environment(ORDER, "eth0", {"PATH": "/bin", "RANK": "3", "PET_NNODES": "7"})
    assert (ours["GLOO_SOCKET_IFNAME"], ours["NCCL_SOCKET_IFNAME"]) == ("eth0", "=eth0")
    assert ours["PATH"] == "/bin" and "RANK" not in ours and "PET_NNODES" not in ours
    assert ours["OMP_NUM_THREADS"] == "3"
    theirs = environment(replace(ORDER, env={"NCCL_SOCKET_IFNAME": "^lo,docker0"}), "eth0", {})
    assert (theirs["GLOO_SOCKET_IFNAME"], theirs["NCCL_SOCKET_IFNAME"]) == ("eth0", "^lo,docker0")


def test_node_0_makes_the_run_directory(tmp_path):
    """C34: one writer; who does not see it says so."""
    order = replace(
        ORDER, folder=str(tmp_path / "r/attempts/1"), logs=str(tmp_path / "r/logs/1"), files={"site.yaml": "x"}
    )
    node.prepare(order)
    assert (tmp_path / "r" / "site.yaml").read_text() == "x"
    node.prepare(replace(order, rank=1))
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "attempts",
        "checkpoints",
        "events",
        "logs",
        "site.yaml",
    ]


def test_a_held_port_is_nobody_elses():
    port = HeldPort(listen=True)
    reach("127.0.0.1", port.number, 2)
    port.hold()
    with pytest.raises(OSError, match="refused"):
        reach("127.0.0.1", port.number, 2)
    with pytest.raises(OSError, match="in use"):
        import socket

        with socket.socket() as other:
            other.bind(("", port.number))
    port.close()


def test_interfaces_of_this_machine():
    found = interfaces()
    assert found["lo"][0] == "127.0.0.1"
    assert interface_of("127.0.0.1", found) == "lo" and interface_of("192.0.2.1", found) is None
    assert is_loopback("127.0.1.1") and is_loopback("::1") and not is_loopback("10.0.0.1")


@pytest.fixture
def facts(tmp_path):
    (tmp_path / "nonce").write_text("secret")
    found = node_facts({"nonce": str(tmp_path / "nonce"), "data": {}, "run_root": str(tmp_path)}, first=True)
    return {**found, "offset_s": 0.0, "interfaces": THERE, "shm_bytes": 1 << 34, "free_bytes": 1 << 40}


def judged(facts, **changes):
    site = Site(run_root="/runs", interface=changes.pop("interface", None))
    findings = judge({"n1": facts, "n2": {**facts, "host": "other", **changes}}, site, here=versions(), nonce="secret")
    return [(finding.fatal, str(finding)) for finding in findings]


def test_equal_nodes_have_nothing_to_say(facts):
    assert judged(facts) == []


@pytest.mark.parametrize(
    ("changes", "fatal", "words"),
    [
        ({"torch": "1.0"}, True, "n2: torch is 1.0 there and"),
        ({"code": "0"}, True, "n2: code is 0 there and"),
        ({"nonce": None}, True, "n2: run_root /runs is not the folder that it is here"),
        ({"nonce": "other"}, True, "n2: run_root /runs is not the folder that it is here"),
        ({"free_bytes": 1000}, True, "n2: run_root has 1000 B free"),
        ({"data": ["/data: no such folder"]}, True, "n2: /data: no such folder"),
        ({"interfaces": {"lo": ()}, "interface": "ib0"}, True, "n2: interface ib0 is not there; there are lo"),
        ({"offset_s": -30.0}, False, "n2: its clock is -30.0 s off"),
        ({"shm_bytes": 64 << 20}, False, "n2: shared memory: 64.0 MiB"),
    ],
)
def test_what_is_told_of_a_node(facts, changes, fatal, words):
    ((is_fatal, text),) = judged(facts, **changes)
    assert is_fatal is fatal
    assert words in text


def test_the_worst_comes_first(facts):
    findings = judged(facts, offset_s=5.0, torch="1.0")
    assert [fatal for fatal, _ in findings] == [True, False]


@pytest.mark.parametrize(
    ("ssh_address", "interface", "expected"),
    [
        ("10.0.0.5", None, "10.0.0.5"),
        ("127.0.0.1", None, "10.0.0.1"),
        ("", None, "10.0.0.1"),
        ("10.0.0.5", "ib0", "10.1.0.1"),
        ("", "nosuch0", None),
    ],
)
def test_where_the_agents_meet(ssh_address, interface, expected):
    """C28, C32: an address, and never the loopback's."""
    assert rendezvous_address({"ssh_address": ssh_address, "interfaces": THERE}, interface) == expected


def test_the_fingerprint_covers_every_source(tmp_path):
    (tmp_path / "a.py").write_text("1")
    before = code_sha256(tmp_path)
    (tmp_path / "b.py").write_text("")
    assert code_sha256(tmp_path) != before


def test_another_version_takes_no_part():
    """Under a scheduler nobody asks first, so the node itself compares."""
    node.check_versions(ORDER)
    node.check_versions(replace(ORDER, versions=versions()))
    with pytest.raises(OSError, match=r"torch is .* here and 1\.0 where it was submitted"):
        node.check_versions(replace(ORDER, versions={**versions(), "torch": "1.0"}))
