"""The elastic agent of one node of several: its address, its command line and its environment."""

import sys
from collections.abc import Mapping
from pathlib import Path

from dawnrun.launch import beside
from dawnrun.launch.devices import available_cores
from dawnrun.launch.local import clean_environment, worker_environment
from dawnrun.launch.network import interface_of, interfaces, is_loopback, own_address, resolve
from dawnrun.launch.order import Order

JOIN_S = 120
"""Time for all agents to meet; their start may be a slow import from a shared disk."""


def where(order: Order) -> tuple[str, str, str]:
    """The rendezvous address, this node's own, and the interface that holds that. Raises OSError, with what to do."""
    found = interfaces()
    address = resolve(order.address)
    if order.interface is not None:
        if not found.get(order.interface):
            raise OSError(f"interface {order.interface}: not here, or without an address; there are {', '.join(found)}")
        own = found[order.interface][0]
        return (own if order.rank == 0 else address), own, order.interface
    own = address if order.rank == 0 else own_address(address)
    name = interface_of(own, found)
    if name is None or (order.machines > 1 and is_loopback(own)):
        what = "is the loopback" if name else "belongs to no interface here"
        raise OSError(f"{own}, on the way to {address}, {what}; name `interface` in the site")
    return address, own, name


def agent_command(order: Order, address: str, own: str, python: str = sys.executable) -> tuple[str, ...]:
    """The elastic agent's command line with the program it starts."""
    host = f"[{address}]" if ":" in address else address
    is_host = "true" if order.rank == 0 else "false"
    return (
        *(order.engine or (python, "-u", "-m", "torch.distributed.run")),
        f"--nnodes={order.nodes}",
        f"--nproc-per-node={order.processes}",
        "--max-restarts=0",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={host}:{order.port}",
        f"--rdzv-id={order.rendezvous}",
        f"--rdzv-conf=is_host={is_host},join_timeout={JOIN_S},read_timeout={JOIN_S}",
        f"--local-addr={own}",
        f"--log-dir={order.logs}/torchrun-{order.rank}",
        *order.command,
    )


def commands(order: Order, address: str, own: str, python: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the guard runs, and what it runs beside that: the agent, and on one node the evaluators."""
    agent = agent_command(order, address, own, python) if order.trains else ()
    if not order.evaluates:
        return agent, ()
    evaluators = beside.command(
        Path(order.folder),
        Path(order.logs),
        first_device=order.processes if order.trains else 0,
        count=order.evaluators,
        worker=(python, "-u", *order.command),
    )
    return (agent, evaluators) if agent else (evaluators, ())


def environment(order: Order, interface: str, outer: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment: this node's, without an outer job's, then ours, then the user's."""
    processes = order.processes * order.trains + order.evaluators * order.evaluates
    threads = order.threads or max(1, available_cores() // processes)
    ours = worker_environment(threads=threads)
    ours |= {"GLOO_SOCKET_IFNAME": interface, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": f"{order.grace_s:g}"}
    # A signal to the agent would end it before its workers have saved; the guard signals them itself.
    ours["PET_SIGNALS_TO_HANDLE"] = "SIGQUIT"
    # "=": this name alone, where NCCL would take every name that begins with it.
    ours["NCCL_SOCKET_IFNAME"] = f"={interface}"
    return {**clean_environment(outer), **ours, **order.env}
