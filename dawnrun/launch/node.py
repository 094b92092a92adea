"""One node of a job on several: answers the launcher's questions, then guards its part of the job.

    python -m dawnrun.launch.node                          over ssh, a conversation in lines of JSON
    python -m dawnrun.launch.node --order FILE [--rank N]  under a scheduler, where nobody asks
    python -m dawnrun.launch.node --question FILE          the same for one of the questions

Lines to the launcher begin with `@dawnrun `, so that whatever a login shell prints is passed over. Questions are
`{"facts": ...}` and `{"reach": ...}`; `{"order": ...}` and `{"stage": ...}` end them, and from then on every line is a lease.
"""

import argparse
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dawnrun.errors import DawnrunError, ExitCode
from dawnrun.launch.agent import JOIN_S, commands, environment, where
from dawnrun.launch.facts import node_facts, versions
from dawnrun.launch.guard import POLL_S, Guard, Lease
from dawnrun.launch.network import HeldPort, own_address, reach, resolve
from dawnrun.launch.order import Order
from dawnrun.launch.unpack import environment_python
from dawnrun.text import size

MARK = "@dawnrun "
BEAT_S = 1.0
HOLD_S = 10.0
"""Silence after which either side takes the other for gone."""
EXIT_PREEMPTED = 75


def prepare(order: Order) -> None:
    """Node 0 makes the run directory if the order brings it; the others wait for it. Raises OSError."""
    if not order.files:
        return
    run, folder = Path(order.folder).parent.parent, Path(order.folder)
    if order.rank == 0:
        for path in (folder, Path(order.logs), run / "events", run / "checkpoints"):
            path.mkdir(parents=True, exist_ok=True)
        for name, text in order.files.items():
            (run / f".{name}.new").write_text(text, encoding="utf-8")
            (run / f".{name}.new").replace(run / name)
        (folder / "prepared").touch()
    deadline = time.monotonic() + JOIN_S
    while not (folder / "prepared").exists():
        if time.monotonic() > deadline:
            raise OSError(f"{folder}: node 0 has not made it within {JOIN_S} s; is this volume the same on all nodes?")
        time.sleep(POLL_S)


def check_versions(order: Order) -> None:
    """Raises OSError where another dawnrun, torch or Python would take part."""
    here = versions() if order.versions else {}
    other = [f"{name} is {here[name]} here and {known} where it was submitted" for name, known in order.versions.items()
             if here[name] != known]  # fmt: skip
    if other:
        raise OSError("; ".join(other))


def check_needs(order: Order) -> None:
    """What `doctor` asks in short, where nobody asked: data and room. Raises OSError with everything that is missing."""
    if not order.needs:
        return
    from dawnrun.launch.checks import CHECKPOINT_BYTES  # brings the whole schema of sites

    facts = node_facts({"nonce": order.folder, "run_root": order.folder, **order.needs}, first=False)
    missing = [f"not in local_data_root yet: {', '.join(facts['not_staged'])}"] if facts["not_staged"] else []
    if (facts["free_bytes"] or 0) < CHECKPOINT_BYTES:
        missing.append(
            f"run_root has {size(facts['free_bytes'] or 0)} free, a checkpoint takes {size(CHECKPOINT_BYTES)}"
        )
    if facts["data"] or missing:
        raise OSError("; ".join([*facts["data"], *missing]))


def resolve_patiently(order: Order) -> Order:
    """The order with an address: a pod's name can be looked up only once the pod is there. Raises OSError."""
    deadline = time.monotonic() + JOIN_S
    while True:
        try:
            return replace(order, address=resolve(order.address))
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(f"{order.address}: {error.strerror or error}") from error
            time.sleep(BEAT_S)


def run(order: Order, lease: Lease) -> int:
    """Guard this node's agent to its end; 75 if the run was stopped after saving."""
    address, own, interface = where(order)
    folder, log = Path(order.folder), Path(order.logs) / f"node-{order.rank}.log"
    with beating(lease):
        python = unpacked_python(order, log)
    command, second = commands(order, address, own, python)
    guard = Guard(
        command,
        record=folder / f"node-{order.rank}.json",
        output=log,
        grace_s=order.grace_s,
        env=environment(order, interface, os.environ),
        lease=lease,
        beside=second,
    )
    code = guard.run()
    tell({"ended": guard.record})
    if not lease.stdin and code != 0 and guard.record["reason"] in ("exited", "signalled"):
        # Nobody watches over the other nodes here, and their agents would wait for this one's.
        (folder / "orders").write_text("now", encoding="utf-8")
    with suppress(OSError, ValueError):
        if json.loads((folder / "outcome.json").read_text(encoding="utf-8"))["reason"] == "preempted":
            return EXIT_PREEMPTED
    return code


@contextmanager
def beating(lease: Lease) -> Iterator[None]:
    """Let the launcher know that this node lives while it does something slow."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(POLL_S):
            lease.beat()

    thread = threading.Thread(target=beat, name="beat")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def not_started(order: Order, error: OSError) -> int:
    """Leave word of why this node could not begin its part; the code to exit with."""
    fields = {"host": socket.gethostname(), "time": time.time(), "error": "not started", "message": str(error),
              "exit_code": int(ExitCode.LAUNCH)}  # fmt: skip
    with suppress(OSError):
        (Path(order.folder) / f"lost-node-{order.rank}.json").write_text(json.dumps(fields) + "\n", encoding="utf-8")
        (Path(order.folder) / "orders").write_text("now", encoding="utf-8")  # the others would wait for this one
    tell({"ended": {"reason": "failed", "exit_code": int(ExitCode.LAUNCH), "host": socket.gethostname()}})
    return int(ExitCode.LAUNCH)


def unpacked_python(order: Order, log: Path) -> str:
    """The interpreter of the agent: this one, or that of the archive, which is unpacked first. Raises OSError."""
    if order.environment_archive is None:
        return sys.executable
    python, seconds = environment_python(Path(order.environment_archive))
    with log.open("a", encoding="utf-8") as file:
        file.write(f"environment of {order.environment_archive} in {python.parents[1]} after {seconds:.1f} s\n")
    return str(python)


def tell(answer: Mapping[str, Any]) -> None:
    """A line to the launcher, which may be gone."""
    with suppress(OSError):
        os.write(1, f"{MARK}{json.dumps(answer, default=str)}\n".encode())


def converse() -> int:
    """Answer questions until there is an order, and carry it out."""
    port = HeldPort(listen=True)
    while line := _line():
        question = json.loads(line)
        try:
            if "facts" in question:
                facts = node_facts(question["facts"], first=question.get("rank") == 0)
                tell({"facts": {**facts, "port": port.number}})
            elif "reach" in question:
                reach(*question["reach"])
                tell({"reach": own_address(question["reach"][0])})
            elif "order" in question:
                order = Order.read(question["order"])
                port.hold() if order.port == port.number and order.rank == 0 else port.close()
                try:
                    return run(order, Lease(hold_s=HOLD_S, beat=Beat()))
                except OSError as error:
                    return not_started(order, error)
            elif "stage" in question:
                threading.Thread(target=_live_by_beats, name="lease", daemon=True).start()
                return stage_part(question["stage"], question["rank"])
        except OSError as error:
            tell({"error": str(error)})
    return 0


def _live_by_beats() -> None:
    """Beat, and end this process when the launcher is gone or cut off."""
    beat, heard = Beat(), time.monotonic()
    while time.monotonic() - heard < HOLD_S:
        beat()
        if select.select([0], [], [], BEAT_S)[0]:
            heard = time.monotonic()
            if not os.read(0, 4096):
                break
    os._exit(1)


def stage_part(fields: Mapping[str, Any], rank: int) -> int:
    """Copy this node's data sets; how far it is and how it ended is told in lines."""
    from dawnrun.launch.stage import StageOrder, stage  # brings numpy and Pillow

    def tell_rank(answer: Mapping[str, Any]) -> None:
        tell({**answer, "rank": rank})

    try:
        tell_rank({"staged": stage(StageOrder(**fields), rank, tell_rank)})
    except ConnectionError as error:  # another node's failure
        tell_rank({"error": str(error), "host": socket.gethostname(), "in_consequence": True})
    except (DawnrunError, OSError) as error:
        tell_rank({"error": str(error), "host": socket.gethostname()})
    else:
        return 0
    return 1


def _line() -> bytes:
    """A line of standard input; unbuffered, because what follows an order is for the guard."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([0], [], [], JOIN_S)[0]:
            return b""  # the launcher is cut off before the job has begun
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line if line.strip() else _line()


class Beat:
    """Tells the launcher about once a second that this node lives."""

    def __init__(self) -> None:
        """The first beat comes at once."""
        self._last = -BEAT_S

    def __call__(self) -> None:
        """Beat, if it is time."""
        if time.monotonic() - self._last >= BEAT_S:
            self._last = time.monotonic()
            tell({})


def main() -> int:
    """Read the arguments and be a node."""
    parser = argparse.ArgumentParser(prog="python -m dawnrun.launch.node", description=__doc__)
    parser.add_argument("--order", type=Path)
    parser.add_argument("--rank", type=int, help="left out: the scheduler's number of this task")
    parser.add_argument("--question", type=Path, help="a file with the launcher's question; answer it and leave")
    arguments = parser.parse_args()
    numbers = (os.environ.get(name) for name in ("SLURM_PROCID", "JOB_COMPLETION_INDEX"))
    rank = arguments.rank if arguments.rank is not None else int(next(filter(None, numbers), 0))
    if arguments.question is not None:
        question = json.loads(arguments.question.read_text(encoding="utf-8"))
        if "stage" in question:
            return stage_part(question["stage"], rank)
        tell({"facts": node_facts(question["facts"], first=rank == 0), "rank": rank})
        return 0
    if arguments.order is None:
        return converse()
    fields = json.loads(arguments.order.read_text(encoding="utf-8"))
    order = Order.read({**fields, "rank": rank})
    try:
        check_versions(order)
        check_needs(order)
        prepare(order)
        code = run(resolve_patiently(order), Lease(stdin=False))
    except OSError as error:
        print(f"dawnrun: node {order.rank}: {error}", file=sys.stderr)
        return not_started(order, error)
    # srun kills the other tasks of a step as soon as one ends with another code than 0; its script reads the outcome.
    return 0 if code == EXIT_PREEMPTED and "SLURM_PROCID" in os.environ else code


if __name__ == "__main__":
    sys.exit(main())
