"""Kills a process that saves checkpoints at random instants: `python tests/kill_saves.py FOLDER ROUNDS SEED`.

torch is imported once; each round forks a child that goes on from what is there, with its thread and all, and kills
its whole process group. Prints a line of JSON: rounds, saves that were told as complete, what was being done at the kills.
"""

import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from dawnrun.launch.outcome import newest_checkpoint
from dawnrun.recipe.method import Optimizer
from dawnrun.recipe.schema import Aggregation
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.checkpoint import Checkpoint, damage, read_manifest, state_values
from dawnrun.train.checkpoint_store import CheckpointStore
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import build_optimizer
from dawnrun.train.peers import Peers
from dawnrun.train.saver import Saver
from dawnrun.train.step import TrainState


class Pipe:
    """Told of every complete save; writes its step where the parent reads."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def saved(self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float) -> None:
        os.write(self._handle, f"{checkpoint.step}\n".encode())

    def save_failed(self, error: OSError, *, step: int, epoch: int, why: Sequence[str], num_bytes: int) -> None:
        raise error


def fresh() -> TrainState:
    """2 MB of weights and as much momentum."""
    model = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.Linear(512, 512))
    return TrainState(
        model=Aggregated(model, Aggregation(), Peers(), torch.device("cpu")),
        optimizer=build_optimizer(model, Optimizer()),
        statistics=RunningStatistics(model),
        loss_scale=None,
    )


def open_store(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, keep=2, classes=("a", "b"))


def save_for_ever(folder: Path, handle: int, *, is_asynchronous: bool, last: int | None = None) -> None:
    """Go on from the newest checkpoint: every value is the number of the step."""
    store, state = open_store(folder), fresh()
    store.remove_leftovers()
    newest, _ = store.latest()
    if newest is not None:
        store.load(newest, state)
    saver = Saver(store, Pipe(handle), is_asynchronous=is_asynchronous)
    os.write(handle, b"0\n")
    while state.step != last:
        state.step += 1
        for value in state_values(state).values():
            value.fill_(state.step)
        counts = {"num_images": 100, "top1_correct": state.step * 7 % 50, "top5_correct": state.step * 7 % 50}
        saver.save(state, epoch=state.step, why=["epoch"], extra={"validation": counts})
    saver.settle()


def timed_save(folder: Path, handle: int, step: int) -> float:
    """Seconds of one save in peace."""
    began = time.perf_counter()
    save_for_ever(folder, handle, is_asynchronous=False, last=step)
    return time.perf_counter() - began


def check(folder: Path, told: int) -> int:
    """The step of the newest checkpoint; every folder with the name of one is whole and holds that step's values."""
    for path in folder.glob("step-*"):
        checkpoint = read_manifest(path)
        assert checkpoint is not None, f"{path} has no manifest"
        assert damage(checkpoint) is None, f"{path}: {damage(checkpoint)}"
        state = fresh()
        open_store(folder).load(checkpoint, state)
        wrong = [key for key, value in state_values(state).items() if not (value == checkpoint.step).all()]
        assert not wrong, f"{path} holds other values: {wrong}"
    newest, damaged = open_store(folder).latest()
    assert newest is not None and not damaged, damaged
    assert newest.path == newest_checkpoint(folder)
    assert newest.step >= told, f"step {told} was told as saved; step {newest.step} is the newest"
    return newest.step


def read_steps(handle: int) -> list[int]:
    """What the child has told so far."""
    text = b""
    while select.select([handle], [], [], 0)[0] and (part := os.read(handle, 65536)):
        text += part
    return [int(line) for line in text.decode().split("\n")[:-1]]


def kill_once(folder: Path, delay_s: float, *, is_asynchronous: bool) -> list[int]:
    """Start a child that saves, kill it so long after its first save began; the steps it told as saved."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        try:
            save_for_ever(folder, writing, is_asynchronous=is_asynchronous)
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 2) == b"0\n", "the child failed before its first save"
    time.sleep(delay_s)
    os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the child ended by itself"
    steps = read_steps(reading)
    os.close(reading)
    return steps


def main() -> None:
    """Save a few times in peace to know how long it takes, then kill."""
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    chance = random.Random(seed)
    silent = os.open(os.devnull, os.O_WRONLY)
    save_s = min(timed_save(folder, silent, last) for last in range(1, 5))
    step, saves, left = check(folder, 4), 0, Counter[str]()
    for number in range(rounds):
        told = kill_once(folder, chance.uniform(0, 3 * save_s), is_asynchronous=bool(number % 4))
        left.update(
            "while writing" if any(path.name != "checkpoint.json" for path in aside.iterdir()) else "while making room"
            for aside in folder.glob(".step-*.*")
            if not aside.name.endswith(".dropped")
        )
        left.update("while dropping" for _ in folder.glob(".step-*.dropped"))
        newest = check(folder, max([step, *told]))
        assert newest <= max([step, *told]) + 2
        saves, step = saves + len(told), newest
    print(json.dumps({"rounds": rounds, "saves": saves, "save_s": round(save_s, 4), "newest": step, "left": left}))


if __name__ == "__main__":
    main()
