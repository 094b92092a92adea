"""A worker's life around the training: arguments, logs, signals, and how its end is told to the launcher."""

import argparse
import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dawnrun.errors import DawnrunError, ExitCode, TrainError
from dawnrun.record.events import Json
from dawnrun.record.rundir import RunDir

if TYPE_CHECKING:
    from dawnrun.train.loop import Training


def main(*, began: float) -> None:
    """Run one worker to its end and exit with its code."""
    parser = argparse.ArgumentParser(prog="python -m dawnrun.train")
    parser.add_argument("run", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--evaluator", type=int, metavar="NUMBER")
    parser.add_argument("--device-index", type=int, default=0)
    parser.add_argument("--validate", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--probe", action="store_true", help="try the parts of a run out, for `dawnrun doctor`")
    arguments = parser.parse_args()
    run, rank = RunDir(arguments.run), int(os.environ.get("RANK", "0"))
    _die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # under a scheduler the agent ignores it, and so would its children
    if arguments.evaluator is not None:
        _evaluate_beside(run, arguments.attempt, arguments.evaluator, arguments.device_index, began)
    _redirect(run, arguments.attempt, f"rank-{rank:03d}")
    built: list[Training] = []
    try:
        if arguments.validate:
            from dawnrun.train.validate import validate_checkpoint

            validate_checkpoint(
                run,
                arguments.attempt,
                arguments.validate,
                began=began,
                image_size=arguments.image_size,
                output=arguments.output,
            )
            code = int(ExitCode.OK)
        elif arguments.probe:
            from dawnrun.train.probe import probe

            probe(run, arguments.attempt, began=began)
            code = int(ExitCode.OK)
        else:
            code = _train(run, arguments.attempt, began, built)
    except BaseException as error:  # noqa: BLE001  whatever ends a worker has to be told
        code = _fail(run, arguments.attempt, rank, error, built[0] if built else None)
    sys.stdout.flush()
    sys.stderr.flush()
    # Decode threads and a half-dead process group must not keep a worker that has told its end.
    os._exit(ExitCode.OK if _under_torchrun() and code in (ExitCode.BELOW_TARGET, ExitCode.PREEMPTED) else code)


def _under_torchrun() -> bool:
    """Torchrun turns every code but 0 into a failure of the job, so orderly ends are told by file alone."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def _die_with_parent() -> None:
    """Have Linux kill this process when the agent or guard that started it is gone: nobody else would."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1: PR_SET_PDEATHSIG


def _evaluate_beside(run: RunDir, attempt: int, number: int, device_index: int, began: float) -> NoReturn:
    """Be an evaluator to its end. Its failure is not the run's: the log says what it was, and it is started once more."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the training decides when there is nothing left to validate
    _redirect(run, attempt, f"evaluator-{number:03d}")
    code = 1
    try:
        from dawnrun.train.evaluator import evaluate_snapshots

        evaluate_snapshots(run, attempt, number, device_index=device_index, began=began)
        code = 0
    except DawnrunError as error:
        print(error, file=sys.stderr)
    except Exception as error:  # noqa: BLE001  whatever ends it has to be told
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _redirect(run: RunDir, attempt: int, name: str) -> None:
    """All output of this process goes into its own log file; says that it has started."""
    path = run.logs / str(attempt) / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    faulthandler.enable()
    (run.attempt_dir(attempt) / f"{name}.started").touch()


def _train(run: RunDir, attempt: int, began: float, built: list["Training"]) -> ExitCode:
    """Build, train, say how it ended; what was built is put into `built` for whoever has to explain a failure."""
    from dawnrun.train.build import build
    from dawnrun.train.entry import enter
    from dawnrun.train.loop import FinishReason, train
    from dawnrun.train.startup import Startup

    worker = enter(run, attempt, began=began, startup=Startup(time.perf_counter() - began))
    training = build(worker)
    built.append(training)
    _listen(training)
    reason = train(training)
    _raise_unsaved(training)
    plan = training.schedule.at(max(training.state.step - 1, 0))
    training.journal.write("run.finished", reason=reason, step=training.state.step, epoch=plan.epoch)
    if worker.peers.rank == 0:  # for the guards and a batch script, which do not read the event log
        _write_json(run.attempt_dir(attempt) / "outcome.json", {"reason": str(reason), "step": training.state.step})
    training.batches.close()
    training.journal.close()
    worker.peers.barrier()
    worker.peers.close()
    if reason == FinishReason.PREEMPTED:
        return ExitCode.PREEMPTED
    target = training.recipe.target
    asked = target.top5 is not None or target.top1 is not None
    return ExitCode.BELOW_TARGET if asked and not training.reached else ExitCode.OK


def _raise_unsaved(training: "Training") -> None:
    """A run whose last or crossing checkpoint could not be written has not done what it was for."""
    vital = training.saver.unsaved & {"last", "target", "signal"}
    if vital:
        raise TrainError(
            f"the run ended, but its checkpoint ({', '.join(sorted(vital))}) could not be saved in"
            f" {training.store.folder}; the event log says why"
        )


def _listen(training: "Training") -> None:
    """A termination signal ends the run at the next window that all processes agree on; Ctrl-C is the launcher's."""

    def ask_to_stop(*_: object) -> None:
        training.progress.stop_asked = True

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _fail(run: RunDir, attempt: int, rank: int, error: BaseException, training: "Training | None") -> int:
    """Leave a record of the failure that outlives this process; the code to exit with."""
    if isinstance(error, SystemExit):
        return int(error.code or 0)
    foreseen = _foreseen(error, training)
    if foreseen is None:
        traceback.print_exception(error)
    else:
        print(foreseen, file=sys.stderr)
    code = int(foreseen.exit_code if foreseen else ExitCode.BUG)
    fields: dict[str, Json] = {
        "rank": rank,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time": time.time(),  # wall clock: the earliest of all ranks is the cause
        "error": type(error).__name__,
        "message": str(foreseen or error),
        "step": None if training is None else training.state.step,
        "epoch": None if training is None else training.schedule.at(max(training.state.step - 1, 0)).epoch,
        "exit_code": code,
    }
    _write_json(run.attempt_dir(attempt) / f"failure-rank-{rank:03d}.json", fields)
    if training is not None:
        with suppress(DawnrunError):  # the log may be what failed
            training.journal.write("worker.failed", **fields)
            training.journal.close()
    return code


def _foreseen(error: BaseException, training: "Training | None") -> DawnrunError | None:
    """The error as the user should read it; None for a bug."""
    if isinstance(error, DawnrunError):
        return error
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return _out_of_memory(error, training)
    lost = ("gloo", "NCCL", "Connection closed", "connection reset", "Timed out", "timeout")
    if isinstance(error, torch.distributed.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in lost)
    ):
        return TrainError(f"the exchange with the other processes failed: {error}")
    return None


def _out_of_memory(error: BaseException, training: "Training | None") -> TrainError:
    """Which batch did not fit, and the next smaller one that divides the global batch as the recipe needs it."""
    if training is None:
        return TrainError(f"out of memory before the first step: {error}")
    plan = training.schedule.at(min(training.state.step, training.schedule.total_steps - 1))
    share = plan.global_batch_size // training.peers.world_size
    smaller = [size for size in range(plan.per_device_batch_size - 1, 0, -1) if share % size == 0]
    advice = f"set phases[{plan.phase_index}].per_device_batch_size={smaller[0]}" if smaller else "use a larger device"
    return TrainError(
        f"out of memory in step {plan.step + 1} with {plan.per_device_batch_size} images of {plan.image_size} px on a"
        f" device: {advice} ({error})"
    )


def _write_json(path: Path, value: dict[str, Json]) -> None:
    """One JSON file, there when complete."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(value, default=str), encoding="utf-8")
    aside.replace(path)
