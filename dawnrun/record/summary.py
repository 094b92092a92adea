"""What a run amounts to, computed from its events: the one thing every report and table reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from dawnrun.clock import Rule
from dawnrun.errors import ReportError, VersionError
from dawnrun.record import changes, remarks
from dawnrun.record.events import Event, read_events, utc_now
from dawnrun.record.fold import Fold
from dawnrun.record.folds import AttemptFold
from dawnrun.record.rows import Attempt, Crossing, EpochRow, PhaseRow, ProgressPoint, Spent, Status
from dawnrun.record.rundir import RunDir
from dawnrun.record.spans import AttemptTime

__all__ = [
    "Attempt",
    "Crossing",
    "EpochRow",
    "PhaseRow",
    "ProgressPoint",
    "RunSummary",
    "Spent",
    "Status",
    "summarize",
    "summarize_events",
]

LIVE_S = 60.0
"""A run without an end whose newest event is older than this is not called running."""

_STATUS_OF_REASON: Mapping[str, Status] = {
    "target_reached": "finished",
    "all_epochs": "finished",
    "preempted": "preempted",
    "interrupted": "interrupted",
}
_STATUS_OF_EXIT_CODE: Mapping[int, Status] = {75: "preempted", 130: "interrupted"}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """Everything reports say about a run. `seal_faults`: why the record itself is in doubt (dawnrun/record/seal.py)."""

    path: str
    run_id: str
    name: str
    status: Status
    reason: str
    recipe: Mapping[str, Any]
    site: Mapping[str, Any]
    started: Mapping[str, Any]
    startup_s: Mapping[str, float]
    total_epochs: int
    total_steps: int
    steps_done: int
    epochs: tuple[EpochRow, ...]
    phases: tuple[PhaseRow, ...]
    progress: tuple[ProgressPoint, ...]
    crossings: tuple[Crossing, ...]
    attempts: tuple[Attempt, ...]
    spent: Spent
    images_per_second: float | None
    input_wait_s: float
    skipped_steps: int
    bad_images: tuple[Mapping[str, Any], ...]
    checkpoints: tuple[Mapping[str, Any], ...]
    failures: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...]
    seal_faults: tuple[str, ...] = ()

    def crossing(self, name: str = "target") -> Crossing | None:
        """The crossing of that name, or None."""
        return next((crossing for crossing in self.crossings if crossing.name == name), None)

    @property
    def nodes(self) -> int:
        """Machines of the run, that of the evaluators among them."""
        return int(self.site.get("nodes", 1)) + bool(self.site.get("evaluator_node"))

    @property
    def processes_per_node(self) -> int:
        """Processes on each machine that trains, one for each device."""
        return max(1, int(self.started.get("world_size") or 1) // int(self.site.get("nodes", 1)))

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all machines together in USD per hour; None if the site states none."""
        price = self.site.get("usd_per_node_hour")
        return None if price is None else float(price) * self.nodes

    def cost_to_accuracy_usd(self, rule: Rule = "dawnbench") -> float | None:
        """Time to the target under a rule times the price of all machines; None without crossing or price."""
        crossing, price = self.crossing(), self.usd_per_hour
        return None if crossing is None or price is None else crossing.time_to_accuracy_s(rule) / 3600 * price


def summarize(run: RunDir | Path, *, utc_now: Callable[[], datetime] = utc_now) -> RunSummary:
    """The summary of a run directory, in memory that does not grow with the run's steps.

    UsageError if it is none; ReportError if its record is damaged (beyond a last line cut short) or contradicts itself.
    """
    run = run if isinstance(run, RunDir) else RunDir.open(run)
    try:
        return summarize_events(read_events(run, superseded=True), path=str(run.path), utc_now=utc_now)
    except VersionError:
        raise
    except ReportError as error:
        text = str(error)
        raise ReportError(text if text.startswith(str(run.path)) else f"{run.path}: {text}") from error


def summarize_events(
    events: Iterable[Event], *, path: str = "", utc_now: Callable[[], datetime] = utc_now
) -> RunSummary:
    """The summary of a run's events, in order, superseded ones included and marked."""
    fold = Fold()
    for event in events:
        fold.add(event)
    fold.close()
    return _summary(fold, path, utc_now())


def _summary(fold: Fold, path: str, now: datetime) -> RunSummary:
    numbered = [(attempt.number, attempt.started) for attempt in fold.attempts if attempt.started]
    starts = [started for _, started in numbered]
    first, last = (starts[0], starts[-1]) if starts else ({}, {})
    epochs, phases = fold.epoch_rows(), fold.phase_rows()
    attempts = _attempts(fold)
    status, reason = _status(fold, now)
    crossings = tuple(_crossings(epochs, attempts, last.get("num_classes")))
    reached = any(crossing.name == "target" for crossing in crossings)
    if reason == "target_reached" and not reached and not changes.target_changes(attempts):
        raise ReportError("the run ended because its target was reached, but no validation in its record reached it")
    training_s, images = sum(phase.training_s for phase in phases), sum(phase.images for phase in phases)
    failures, bad_images = tuple(fold.failures), tuple(fold.bad_images.values())
    return RunSummary(
        path=path,
        run_id=first.get("run_id", Path(path).name),
        name=last.get("recipe", {}).get("name", Path(path).name),
        status=status,
        reason=reason,
        recipe=last.get("recipe", {}),
        site=last.get("site", {}),
        # What was read is said of the newest attempt, here as in the remarks and at a crossing.
        started={**first, **{key: last[key] for key in changes.DATA_FIELDS if key in last}},
        startup_s=dict(fold.startup),
        total_epochs=last.get("total_epochs", 0),
        total_steps=last.get("total_steps", 0),
        steps_done=fold.steps_done,
        epochs=epochs,
        phases=phases,
        progress=tuple(fold.progress.points()),
        crossings=crossings,
        attempts=attempts,
        spent=fold.timeline.spent(),
        images_per_second=images / training_s if training_s > 0 else None,
        input_wait_s=sum(phase.input_wait_s for phase in phases),
        skipped_steps=fold.skipped_steps,
        bad_images=bad_images,
        checkpoints=tuple(fold.checkpoints),
        failures=failures,
        remarks=(
            *changes.data_remarks(numbered),
            *changes.target_remarks(attempts),
            *remarks.data_remarks(last),
            *remarks.row_remarks(epochs, fold.part_recorded()),
            *remarks.validation_remarks(epochs),
            *remarks.late_remarks(epochs, next((c for c in crossings if c.name == "target"), None), fold.steps_done),
            *remarks.attempt_remarks(attempts, [start.get("site", {}) for start in starts]),
            *remarks.trouble_remarks(fold.skipped_steps, len(bad_images), failures),
            *dict.fromkeys(fold.said),
            *_status_remarks(status, reason),
        ),
    )


def _status_remarks(status: Status, reason: str) -> Iterator[str]:
    if status != "finished":
        yield f"the run is not complete: {status}{f' ({reason})' if reason and reason != status else ''}"


def _crossings(rows: Sequence[EpochRow], attempts: Sequence[Attempt], num_classes: int | None) -> Iterator[Crossing]:
    """The first validation at or above each threshold, in the order of steps; `target` needs all of them at once.

    A validation counts if the newest attempt's target was in force when it was made: a target that is lowered
    afterwards has not been reached before.
    """
    targets = {attempt.number: attempt.target for attempt in attempts if attempt.target is not None}
    wanted = targets[max(targets)] if targets else {}
    rows = [row for row in rows if targets.get(row.attempt) == wanted]
    meaningless = {"top5"} if not remarks.top5_means_something(num_classes) else set()
    if wanted and not meaningless & wanted.keys():
        yield from _first_reaching("target", wanted, rows)
    for name in ("top5", "top1"):
        if name in wanted and name not in meaningless:
            yield from _first_reaching(name, {name: wanted[name]}, rows)


def _first_reaching(
    name: Literal["target", "top5", "top1"], threshold: Mapping[str, float], rows: Sequence[EpochRow]
) -> Iterator[Crossing]:
    for row in rows:
        if row.top1 is None or row.top5 is None or row.known_spent is None:
            continue
        reached = {"top1": row.top1, "top5": row.top5}
        if all(reached[key] >= percent for key, percent in threshold.items()):
            yield Crossing(
                name=name,
                threshold=threshold,
                epoch=row.epoch,
                step=row.step,
                top1=row.top1,
                top5=row.top5,
                spent=row.spent,
                known_spent=row.known_spent,
            )
            return


def _attempts(fold: Fold) -> tuple[Attempt, ...]:
    rows = []
    for place, (attempt, time) in enumerate(zip(fold.attempts, fold.timeline.attempts, strict=True)):
        later = [other.first_step for other in fold.attempts[place + 1 :] if other.started]
        cut = min(later, default=attempt.steps_done)
        # Only what it trained itself: what it started from was an earlier attempt's, and is lost there.
        lost_steps = max(0, attempt.steps_done - max(cut, attempt.first_step))
        rows.append(_attempt(attempt, time, lost_steps))
    return tuple(rows)


def _attempt(attempt: AttemptFold, time: AttemptTime, lost_steps: int) -> Attempt:
    return Attempt(
        number=attempt.number,
        first_step=attempt.first_step,
        last_step=attempt.steps_done,
        started_utc=time.started_utc or attempt.first_utc,
        ended=_ended(attempt)[1],
        world_size=attempt.started.get("world_size", 0),
        lost_steps=lost_steps,
        gap_s=time.gap_s,
        idle_s=time.idle_s,
        changes={key: (before, after) for key, (before, after) in attempt.started.get("changes", {}).items()},
        target=_target(attempt.started["recipe"]) if "recipe" in attempt.started else None,
    )


def _target(recipe: Mapping[str, Any]) -> Mapping[str, float]:
    """The accuracies that a recipe asks for."""
    target = recipe.get("target") or {}
    return {name: float(target[name]) for name in ("top5", "top1") if target.get(name) is not None}


def _ended(attempt: AttemptFold) -> tuple[Status, str]:
    """How an attempt ended, as far as its own events say: the trainer's word first, then the launcher's."""
    if attempt.finished is not None:
        reason = str(attempt.finished["reason"])
        return _STATUS_OF_REASON.get(reason, "unknown"), reason
    if attempt.failure is not None:
        failure = attempt.failure
        return "failed", f"rank {failure.get('rank')}: {failure.get('error')}: {failure.get('message')}"
    if attempt.launch_ended is not None:
        return _launch_ended(attempt.launch_ended)
    return "unknown", "its log ends without a reason"


def _launch_ended(data: Mapping[str, Any]) -> tuple[Status, str]:
    if data.get("reason") == "interrupted":
        return "interrupted", "interrupted"
    if data.get("signal") is not None:
        return "failed", f"ended by signal {data['signal']}"
    if data.get("exit_code"):
        code = int(data["exit_code"])
        return _STATUS_OF_EXIT_CODE.get(code, "failed"), f"exit code {code}"
    return "unknown", "its log ends without a reason"


def _status(fold: Fold, now: datetime) -> tuple[Status, str]:
    """How the run stands. Without an end, only the age of its newest event tells a live run from a killed one."""
    if not fold.attempts:
        return "unknown", "it has no events"
    attempt = fold.attempts[-1]
    ended = attempt.finished or attempt.failure or attempt.launch_ended
    if ended is None and (now - datetime.fromisoformat(fold.newest_utc)).total_seconds() < LIVE_S:
        return "running", "in progress"
    return _ended(attempt)
