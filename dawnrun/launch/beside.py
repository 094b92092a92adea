"""Starts the evaluators of a node and watches over them: one that ends is started once more, then given up.

    python -m dawnrun.launch.beside --folder ATTEMPT --output FILE --count N --first-device D -- COMMAND...

Runs under the node guard, beside the agent or in its place; torch is not imported. An evaluator that is given up leaves
`evaluator-NNN.lost` in the attempt's folder, which the training looks for.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

POLL_S = 0.2
NUM_STARTS = 2


def command(folder: Path, logs: Path, *, first_device: int, count: int, worker: Sequence[str]) -> tuple[str, ...]:
    """The command line that watches over `count` evaluators; `worker`: a rank's command."""
    return (
        *(sys.executable, "-m", "dawnrun.launch.beside", "--folder", str(folder), "--output"),
        *(str(logs / "evaluators.log"), "--count", str(count), "--first-device", str(first_device)),
        "--",
        *worker,
    )


def watch(folder: Path, output: Path, count: int, first_device: int, words: Sequence[str]) -> None:
    """Start all, and each once more that ends with a failure; returns when none is left."""
    starts = dict.fromkeys(range(count), 0)
    running: dict[int, subprocess.Popen[bytes]] = {}
    with output.open("ab") as file:

        def start(number: int) -> None:
            starts[number] += 1
            options = ("--evaluator", str(number), "--device-index", str(first_device + number))
            running[number] = subprocess.Popen([*words, *options], stdin=subprocess.DEVNULL, stdout=file, stderr=file)

        for number in starts:
            start(number)
        # Where this is a node's only command, its end would look like the job's.
        while running or (any(folder.glob("evaluator-*.lost")) and not (folder / "outcome.json").exists()):
            for number, process in list(running.items()):
                code = process.poll()
                if code is None:
                    continue
                del running[number]
                if code and starts[number] < NUM_STARTS:
                    start(number)
                elif code:
                    (folder / f"evaluator-{number:03d}.lost").touch()
            time.sleep(POLL_S)


def main() -> None:
    """Read the arguments and watch."""
    parser = argparse.ArgumentParser(prog="python -m dawnrun.launch.beside", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--first-device", type=int, default=0)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    # The guard ends what is here once the training is over; a signal to everyone must not end it before.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    watch(arguments.folder, arguments.output, arguments.count, arguments.first_device, arguments.command)


if __name__ == "__main__":
    main()
