"""Stands in for `python -m dawnrun.train` in tests of launching: keeps its side of the contract, trains nothing.

    fake_worker.py RUN_DIR --attempt N [--validate CHECKPOINT --output FILE]

FAKE in the environment says what it does: finish, below, endless, or a harm `KIND:RANK` to one rank: raise, data, kill,
late, hang, stubborn. Steps take 0.05 s.
"""

import json
import os
import shutil
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from record_factory import Script, recipe_values

from dawnrun.record.rundir import RunDir

RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
RUN, ATTEMPT = RunDir(Path(sys.argv[1])), int(sys.argv[3])
FOLDER, LOGS = RUN.attempt_dir(ATTEMPT), RUN.logs / str(ATTEMPT)
HARM, _, HARMED = os.environ.get("FAKE", "finish").partition(":")


class RealTime:
    """The clock that goes by itself, for a Script that was made for a fake one."""

    def __init__(self):
        self._started = time.perf_counter()

    @property
    def seconds(self):
        return time.perf_counter() - self._started

    @property
    def utc(self):
        return datetime.now(UTC)

    def pass_s(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not STOPPED:
            time.sleep(0.01)


STOPPED: list[int] = []


def fail(error: BaseException, exit_code: int, step: int) -> None:
    report = {
        "rank": RANK, "host": socket.gethostname(), "pid": os.getpid(), "time": time.time(),
        "error": type(error).__name__, "message": str(error), "step": step, "epoch": 0, "exit_code": exit_code,
    }  # fmt: skip
    (FOLDER / f"failure-rank-{RANK:03d}.json").write_text(json.dumps(report))
    print(f"Traceback of {error!r}")
    sys.exit(exit_code)


def do_harm(step: int) -> None:
    """What FAKE asks of this rank, once a few steps are done."""
    if step >= 10 and HARM == "hang" and RANK == 0 and HARMED != "0":
        wait_for_the_other_ranks()
    if step < 10 or str(RANK) != HARMED:
        return
    if HARM == "raise":
        fail(ValueError("weights went missing"), 5, step)
    if HARM == "data":
        fail(OSError("data/train/a/1.jpg: truncated"), 3, step)
    if HARM == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if HARM == "hang":
        while True:
            wait_for_a_gradient_that_never_comes()


def wait_for_the_other_ranks() -> None:
    time.sleep(1000)


def wait_for_a_gradient_that_never_comes() -> None:
    time.sleep(1000)


def start() -> None:
    if "LOCAL_RANK" in os.environ:
        log = open(LOGS / f"rank-{RANK:03d}.log", "ab")  # noqa: PTH123, SIM115
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    stubborn = HARM == "stubborn"
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda number, _: STOPPED.append(number))
    if HARM == "late" and str(RANK) == HARMED:
        time.sleep(14)
    (FOLDER / f"rank-{RANK:03d}.started").touch()
    if RANK == 0:
        (FOLDER / "environment.json").write_text(json.dumps(dict(os.environ)))
    print(f"fake worker {RANK} of {WORLD_SIZE} started", flush=True)


def follow() -> None:
    """A rank other than 0: step until asked to stop or rank 0 has finished."""
    step = 0
    while not STOPPED and not (FOLDER / "done").exists():
        time.sleep(0.05)
        step += 1
        do_harm(step)
    deadline = time.monotonic() + 5
    while STOPPED and time.monotonic() < deadline and not (FOLDER / "outcome.json").exists():
        time.sleep(0.05)  # the real ones meet at a barrier
    leave(75 if STOPPED and "TORCHELASTIC_RUN_ID" not in os.environ else 0)


def leave(code: int) -> None:
    """As the real worker: an interpreter that winds down takes its signal handlers away first."""
    sys.stdout.flush()
    os._exit(code)


def lead(run: RunDir, attempt: int) -> int:
    target = 99.0 if HARM == "below" else 93.0
    script = Script(
        run=run,
        time=RealTime(),
        step_s=0.05,
        eval_s=0.1,
        save_s=0.05,
        recipe=recipe_values(target={"top5": target, "top1": None, "stop": True}),
    )
    script.attempt = attempt
    script._logs["trainer"] = run.log("trainer", attempt, t_s=lambda: script.time.seconds)
    saved = sorted(run.checkpoints.glob("step-*"))
    first = int(saved[-1].name[5:]) if saved else 0
    script.start(first_step=first, imports_s=0.1, data_s=0.1)
    while HARM == "late" and len(list(FOLDER.glob("*.started"))) < WORLD_SIZE:
        time.sleep(0.1)
    epochs = len(script.plan)
    for epoch in range(next(e for e in range(epochs + 1) if e == epochs or script.ends(e) > first), epochs):
        while script.step < script.ends(epoch) or HARM in ("endless", "stubborn"):
            if script.step < script.ends(epoch):
                script.window(min(5, script.ends(epoch) - script.step))
            time.sleep(0.01)
            do_harm(script.step)
            if STOPPED:
                script.save(["signal"])
                script.write("run.finished", reason="preempted", step=script.step, epoch=epoch)
                (FOLDER / "outcome.json").write_text(json.dumps({"reason": "preempted", "step": script.step}))
                return 0 if "TORCHELASTIC_RUN_ID" in os.environ else 75
        script.validate(500 + 50 * epoch, 900 + 20 * epoch)
        script.save()
    script.write("run.finished", reason="all_epochs", step=script.step, epoch=epochs - 1)
    (FOLDER / "done").touch()
    return 6 if HARM == "below" else 0


def validate() -> None:
    """`--validate CHECKPOINT --output FILE [--image-size N]`."""
    words = dict(zip(sys.argv[4::2], sys.argv[5::2], strict=True))
    size = int(words.get("--image-size", 96))
    result = {
        "step": int(words["--validate"][-8:]), "epoch": 1, "num_processes": WORLD_SIZE, "num_classes": 30, "loss": 1.5,
        "num_images": 1000, "top1_correct": 700, "top5_correct": 950, "valid": True, "eval_s": 2.0,
        "image_size": size, "resize_px": size * 114 // 100, "rectangular": False, "flip_average": False,
    }  # fmt: skip
    checkpoint = Path(words["--validate"])
    if (checkpoint / "broken").exists():
        fail(ValueError(f"{checkpoint}: damaged: model.pt"), 2, 0)
    if (checkpoint / "leaves").exists():
        shutil.rmtree(checkpoint)
        fail(FileNotFoundError(f"{checkpoint}/model.pt"), 1, 0)
    if HARM == "data":
        fail(OSError("data/val/a/1.jpg: truncated"), 3, 0)
    Path(words["--output"]).write_text(json.dumps(result))


start()
if "--validate" in sys.argv:
    sys.exit(validate())
if RANK:
    follow()
leave(lead(RUN, ATTEMPT))
