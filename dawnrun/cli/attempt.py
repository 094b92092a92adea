"""One attempt of a run from its start to its last word: plan kept, job watched, end told and recorded."""

import shlex
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dawnrun import __version__
from dawnrun.cli.console import console
from dawnrun.cli.narrate import Narrator
from dawnrun.cli.watch import Signals, Tail, Watch, open_screen
from dawnrun.errors import DataError, DawnrunError, ExitCode, LaunchError, NonFiniteLossError, TrainError, UsageError
from dawnrun.launch.base import Job, LaunchPlan
from dawnrun.launch.checks import data_folders
from dawnrun.launch.choose import open_launcher
from dawnrun.launch.outcome import Failure, find_failures, last_lines, newest_checkpoint, read_node
from dawnrun.launch.queue import held_by, requeued
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.events import EventLog
from dawnrun.record.rundir import RunDir
from dawnrun.record.seal import write_seal
from dawnrun.record.summary import RunSummary, summarize
from dawnrun.text import duration, escaped, plural

_TOLD: Mapping[int, type[DawnrunError]] = {ExitCode.DATA: DataError, ExitCode.USAGE: UsageError}
"""Exit codes of a worker whose message needs no log beside it."""
NOT_RESUMED = "resumed as it is, the run would meet this again: start it anew with a changed recipe"
MOST_LOGS = 4
"""Of so many ranks the last lines are shown when a run hangs."""


def say(text: str = "") -> None:
    """A line on standard output, never folded; nothing in it steers the terminal."""
    console().print(escaped(text, keep="\n\t"), soft_wrap=True)


def job_of(run: RunDir, attempt: int, recipe: Recipe, site: Site) -> Job:
    """The job that an attempt is; without evaluators where the recipe validates after the last step."""
    return Job(
        folder=run.attempt_dir(attempt),
        logs=run.logs / str(attempt),
        site=site if recipe.validation.when == "during" else site.without_evaluators(),
        command=("-m", "dawnrun.train", str(run.path), "--attempt", str(attempt)),
    )


def run_attempt(run: RunDir, attempt: int, recipe: Recipe, job: Job, *, detach: bool = False) -> ExitCode:
    """Start an attempt, follow it to its end (not with `detach`) and say how it ended. Raises what made it fail."""
    launcher = open_launcher(job.site, data=data_folders(recipe, job.site), tell=say)
    plan = launcher.plan(job)
    job.logs.mkdir(parents=True, exist_ok=True)
    (job.folder / "plan.txt").write_text(str(plan), encoding="utf-8", errors="surrogateescape")
    if detach:
        launcher.submit(plan)
        say(
            f"job {held_by(job.folder)} is submitted; follow it with: dawnrun jobs logs {shlex.quote(str(run.path))} --follow"
        )
        return ExitCode.OK
    started = time.perf_counter()
    narrator = Narrator(recipe)
    with Signals() as signals, run.log("launcher", attempt, t_s=lambda: time.perf_counter() - started) as log:
        _log_start(log, plan)
        try:
            with open_screen() as screen:
                nodes = f" on {job.site.nodes} nodes" if job.site.nodes > 1 else ""
                screen.say(f"starting {plural(job.site.world_size, 'process', 'processes')}{nodes}")
                launcher.submit(plan)
                watch = Watch(job, launcher, narrator, screen, signals)
                watch.follow(Tail(run.events_dir(attempt) / "trainer.jsonl"))
        finally:
            launcher.close()
            _log_end(log, job, stopped=signals.first is not None)
    return conclude(run, job, narrator.finished, stopped_by=signals.first, hung=watch.hung, killed=watch.killed)


def _log_start(log: EventLog, plan: LaunchPlan) -> None:
    log.write(
        "launch.started",
        schema_version=1,
        command=list(sys.argv),
        cli_version=__version__,
        host=socket.gethostname(),
        plan=plan.commands,
    )


def _log_end(log: EventLog, job: Job, *, stopped: bool) -> None:
    node = read_node(job.folder)
    reason = "interrupted" if stopped else str(node.get("reason", "lost"))
    if node.get("signal"):
        log.write("launch.ended", signal=str(node["signal"]), reason=reason)
    else:
        code = node.get("exit_code")
        log.write("launch.ended", exit_code=1 if code is None else int(code), reason=reason)


def conclude(
    run: RunDir, job: Job, finished: str | None, *, stopped_by: int | None, hung: bool, killed: bool = False
) -> ExitCode:
    """Say how an attempt ended and return its exit code, or raise the failure.

    `finished`: the trainer's own reason if it came to its end; `stopped_by`: the signal that this command got;
    `killed`: a second one asked for the end at once.
    """
    failures = find_failures(job.folder, job.logs)
    if finished in ("target_reached", "all_epochs") and not failures:
        return _finish(run)
    if hung:
        raise TrainError("\n".join([*_positions(job), f"no step for {job.site.hang_timeout_s:g} s", _kept(run)]))
    number = requeued(job.folder)
    if number:
        say(f"stopped by the scheduler, or a node failed: job {number} is back in the queue and goes on by itself")
        return ExitCode.PREEMPTED
    if stopped_by is not None or (finished in ("preempted", "interrupted") and not failures):
        interrupted = stopped_by == signal.SIGINT
        if killed:
            say("killed at once, as the second signal asked: nothing after the newest checkpoint is kept")
        for failure in () if killed else failures:
            say(f"while stopping: {failure.in_short()}")
        say(f"{'interrupted' if interrupted else 'stopped by a termination signal'}; {_kept(run)}")
        return ExitCode.INTERRUPTED if interrupted else ExitCode.PREEMPTED
    if not failures:
        node = read_node(job.folder)
        how = f"ended with exit code {node.get('exit_code')}" if node.get("ended") else "was lost"
        raise TrainError(f"the job {how} before the run was finished; see {job.logs}\n{_kept(run)}")
    raise failure_error(failures, job.logs, _kept(run))


def failure_error(failures: Sequence[Failure], logs: Path, kept: str) -> DawnrunError:
    """The error of a failed job: the cause's last lines and consequences first, so that the cause is read last.

    Of bad data or bad usage the worker's own message says all there is; no log adds to it.
    """
    cause, *others = failures
    if cause.exit_code in _TOLD and cause.message:
        said = cause.message.removesuffix("; nothing was started")  # true before the start only
        message = said if cause.host == socket.gethostname() else f"{cause.host}: {said}"
        # With a checkpoint the run can go on once that is mended; without one nothing is lost by starting anew.
        return _TOLD[cause.exit_code](f"{message}\n{kept}" if kept.startswith("kept") else message)
    log = logs / f"rank-{cause.rank or 0:03d}.log"
    if not log.exists() or cause.rank is None:
        log = cause.log or logs / "node-0.log"
    lines = [*_tail(log), *(f"in consequence: {failure.in_short()}" for failure in others), f"cause: {cause}"]
    if cause.error == NonFiniteLossError.__name__:
        return NonFiniteLossError("\n".join([*lines, f"{NOT_RESUMED}; {kept.partition(';')[0]}"]))
    text = "\n".join([*lines, *([kept] if kept else [])])
    kind = LaunchError if cause.exit_code == ExitCode.LAUNCH else _TOLD.get(cause.exit_code, TrainError)
    return kind(text)


def _tail(log: Path) -> list[str]:
    """The last lines of a log, or that there are none."""
    lines = last_lines(log)
    if not lines:
        return [f"the run failed; nothing was printed into {log}"]
    return [f"the run failed; the last lines of {log}:", *(f"    {line}" for line in lines)]


def _positions(job: Job) -> list[str]:
    """Where each process was, from the stacks it printed."""
    shown = range(min(MOST_LOGS, job.site.world_size))
    lines = []
    for rank in shown:
        log = job.logs / f"rank-{rank:03d}.log"
        found = last_lines(log)
        lines += [
            f"rank {rank}, {log}:" if found else f"rank {rank} printed nothing",
            *(f"    {line}" for line in found),
        ]
    return lines


def _kept(run: RunDir) -> str:
    """What is kept and how to go on."""
    newest = newest_checkpoint(run.checkpoints)
    kept = f"kept: {escaped(newest)}" if newest else "no checkpoint yet"
    return f"{kept}; go on with: dawnrun resume {escaped(shlex.quote(str(run.path)))}"


def _finish(run: RunDir) -> ExitCode:
    """Seal a finished run and say what it came to."""
    summary = summarize(run)
    crossing = next((c for c in summary.checkpoints if "target" in c.get("why", ())), None)
    path = run.path / str(crossing["path"]) if crossing else None
    write_seal(run, path if path and path.exists() else None)
    say(result_text(summary))
    say(f"run directory: {escaped(run.path)}")
    say(f"report with: dawnrun report {escaped(shlex.quote(str(run.path)))}")
    return result_code(summary)


def result_code(summary: RunSummary) -> ExitCode:
    """0 if the target was reached or none was asked, else 6."""
    return ExitCode.OK if summary.crossing() or not _targets(summary) else ExitCode.BELOW_TARGET


def _targets(summary: RunSummary) -> dict[str, float]:
    target = summary.recipe.get("target") or {}
    return {name: float(target[name]) for name in ("top5", "top1") if target.get(name) is not None}


def result_text(summary: RunSummary) -> str:
    """One line: the target reached and when, or how far the best epoch was from it."""
    crossing, targets = summary.crossing(), _targets(summary)
    wanted = ", ".join(f"{name.replace('top', 'top-')} {value:g} %" for name, value in targets.items())
    if crossing:
        took = duration(crossing.time_to_accuracy_s("dawnbench"))
        return (
            f"target reached ({wanted}): top-5 {crossing.top5:.2f} %, top-1 {crossing.top1:.2f} % "
            f"in epoch {crossing.epoch} after {took} (rule dawnbench)"
        )
    rows = [row for row in summary.epochs if row.top5 is not None and row.top1 is not None]
    if not rows:
        return "finished; nothing was validated"
    by_top5 = "top5" in targets or not targets
    best = max(rows, key=lambda row: (row.top5 if by_top5 else row.top1) or 0.0)
    result = f"best: top-5 {best.top5:.2f} %, top-1 {best.top1:.2f} % in epoch {best.epoch}"
    return f"finished below the target ({wanted}); {result}" if targets else f"finished; {result}"
