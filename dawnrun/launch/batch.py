"""Begins an attempt inside a batch job: `python -m dawnrun.launch.batch RUN FIRST_ATTEMPT` prints its number.

A requeued job starts from the same script, so the number of the attempt, the rendezvous and its port are made here.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dawnrun.errors import DawnrunError, LaunchError
from dawnrun.launch.network import interfaces, is_loopback, resolve
from dawnrun.launch.order import Order
from dawnrun.recipe.hosts import expand
from dawnrun.record.rundir import RunDir

FIRST_PORT, NUM_PORTS = 20_000, 12_000
"""Below the range that the kernel takes ports for outgoing connections from."""
CARRIED = ("resolved.yaml", "places.json", "site.yaml", "changes.json", "profile.json")


def begin(run: RunDir, first: int, environment: Mapping[str, str]) -> int:
    """Write this start's order and return the attempt's number. Raises LaunchError."""
    restarts = int(environment.get("SLURM_RESTART_COUNT") or 0)
    attempt = first if restarts == 0 else run.new_attempt()
    folder, logs = run.attempt_dir(attempt), run.logs / str(attempt)
    logs.mkdir(parents=True, exist_ok=True)
    if attempt != first:
        for name in CARRIED:
            with suppress(FileNotFoundError):
                shutil.copyfile(run.attempt_dir(first) / name, folder / name)
        shutil.copyfile(run.attempt_dir(first) / "job.json", folder / "job.json")
    order = Order.read(json.loads((run.attempt_dir(first) / "order.json").read_text(encoding="utf-8")))
    order = replace(order, folder=str(folder), logs=str(logs), command=(*order.command[:-1], str(attempt)))
    aside = folder / ".order.json"
    aside.write_text(meet(order, environment, restarts).text() + "\n", encoding="utf-8")
    aside.replace(folder / "order.json")
    return attempt


def meet(order: Order, environment: Mapping[str, str], restarts: int = 0) -> Order:
    """The order with a rendezvous that belongs to this start of this job alone. LaunchError: the nodes do not fit."""
    job = environment["SLURM_JOB_ID"]
    nodes = expand(environment["SLURM_JOB_NODELIST"])
    if len(nodes) < order.machines:
        raise LaunchError(f"job {job} has {len(nodes)} nodes ({', '.join(nodes)}), the site asks for {order.machines}")
    port = FIRST_PORT + (int(job) + restarts) % NUM_PORTS
    address = node_address(nodes[0])
    folder = Path(order.folder)
    rendezvous = f"{folder.parent.parent.name}-{folder.name}-{job}-{restarts}"
    return replace(order, rendezvous=rendezvous, address=address, port=port)


def node_address(name: str) -> str:
    """The address of a node on the cluster's network: Slurm's own, else the name's unless it is the loopback's."""
    for candidate in (_slurm_address(name), name):
        with suppress(OSError):
            address = resolve(candidate)
            if not is_loopback(address):
                return address
    own = [address for addresses in interfaces().values() for address in addresses if not is_loopback(address)]
    if name.partition(".")[0] == os.uname().nodename.partition(".")[0] and own:
        return own[0]
    raise LaunchError(f"node {name} has no address that the others could reach")


def _slurm_address(name: str) -> str:
    """`NodeAddr` as Slurm knows it, or the name."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["scontrol", "show", "node", "--oneliner", name], capture_output=True, text=True, timeout=10, check=True
        )
        fields = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
        return fields.get("NodeAddr", name)
    return name


def main(words: Sequence[str]) -> int:
    """Print the number, or what is wrong."""
    try:
        print(begin(RunDir(Path(words[0])), int(words[1]), os.environ))
    except (DawnrunError, OSError) as error:
        print(f"dawnrun: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
