"""A run as an MLPerf training log, `:::MLLOG` lines with the keys of ResNet in the closed division, ruleset 3.1.0.

Keys, counts and fixed values: mlcommons/logging, `compliance_checker/training_3.1.0`; rules: mlcommons/training_policies.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dawnrun.clock import MLPERF_INITIALISE_LIMIT_S
from dawnrun.record.remarks import ILSVRC2012
from dawnrun.record.summary import EpochRow, RunSummary
from dawnrun.report import words

TARGET_TOP1 = 75.9
"""Percent: MLPerf's quality target for ResNet from v0.6 on."""
RULESET = "3.1.0"
END_LR = 1e-4
POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"


@dataclass(frozen=True, kw_only=True, slots=True)
class MlperfLog:
    """The log's text, and which rules of the closed division the run does not keep, one sentence each."""

    text: str
    problems: tuple[str, ...]


def mlperf_log(summary: RunSummary, *, org: str | None = None) -> MlperfLog:
    """The log of a run; `org` is who submits. What the record does not hold is left out and named, never invented."""
    # Validations that training did not wait for end in the middle of a later block.
    lines = [_line(*fields) for fields in sorted(_events(summary, org), key=lambda fields: round(fields[0]))]
    return MlperfLog(text="".join(f"{line}\n" for line in lines), problems=tuple(_problems(summary, org)))


Fields = tuple[float, str, str, Any, Mapping[str, Any]]
"""Milliseconds since 1970, event type, key, value, metadata."""


def _line(time_ms: float, event_type: str, key: str, value: Any, metadata: Mapping[str, Any]) -> str:
    fields = {
        "namespace": "",
        "time_ms": round(time_ms),
        "event_type": event_type,
        "key": key,
        "value": value,
        "metadata": {"file": "events/trainer.jsonl", "lineno": 0, **metadata},
    }
    return f":::MLLOG {json.dumps(fields, allow_nan=False)}"


def _events(summary: RunSummary, org: str | None) -> Iterator[Fields]:
    """Every line: facts, initialisation, then blocks of epochs with their validations."""
    began = _start_ms(summary)
    rows = _until_target([row for row in summary.epochs if row.known_spent is not None])
    initialise_s = _first_initialise_s(summary)
    run_start = began + 1000 * initialise_s
    for key, value in _facts(summary, org):
        yield began, POINT, key, value, {}
    yield began, START, "init_start", None, {}
    yield run_start, END, "init_stop", None, {}
    yield run_start, START, "run_start", None, {}
    now = known = run_start
    first = 1
    for row in rows:
        block = {"first_epoch_num": first, "epoch_count": row.epoch - first + 1}
        frozen, known = _at(began, row.spent), _at(began, row.known_spent or {})
        yield now, START, "block_start", None, block
        yield frozen, END, "block_stop", None, {"first_epoch_num": first}
        yield frozen, START, "eval_start", None, {"epoch_num": row.epoch}
        yield known, END, "eval_stop", None, {"epoch_num": row.epoch}
        if row.top1 is not None:
            yield known, POINT, "eval_accuracy", row.top1 / 100, {"epoch_num": row.epoch}
        # A block follows the validation that training waited for, or the one before where it did not.
        now, first = (frozen if _is_late(row) else known), row.epoch + 1
    reached = bool(rows) and _reaches(rows[-1])
    if reached or summary.status != "running":
        end = known if reached else _at(began, summary.spent)
        yield end, END, "run_stop", None, {"status": "success" if reached else "aborted"}


def _facts(summary: RunSummary, org: str | None) -> Iterator[tuple[str, Any]]:
    """What is logged once, before the run."""
    started, phases = summary.started, summary.phases
    yield "submission_benchmark", "resnet"
    yield "submission_division", "closed"
    yield "submission_org", org or "not stated"
    yield "submission_platform", words.machine_text(summary)
    yield "submission_status", "research"
    yield "cache_clear", False
    yield "seed", summary.recipe.get("seed")
    yield "train_samples", started.get("num_train_images")
    yield "eval_samples", started.get("num_val_images")
    if phases:
        yield "global_batch_size", phases[0].global_batch_size
        yield "gradient_accumulation_steps", phases[0].accumulate_steps
    yield from _optimizer(summary)


def _optimizer(summary: RunSummary) -> Iterator[tuple[str, Any]]:
    """The optimizer's keys; the schedule's are read off its segments, and left out where it has none of the kind."""
    optimizer = summary.recipe.get("optimizer") or {}
    name = str(optimizer.get("name", "sgd"))
    prefix = f"{name}_opt"
    yield "opt_name", name
    yield f"{prefix}_weight_decay", optimizer.get("weight_decay")
    if (momentum := (summary.recipe.get("momentum") or {}).get("constant")) is not None:
        yield f"{prefix}_momentum", momentum
    warmup, decay = _split(summary)
    if decay:
        yield f"{prefix}_base_learning_rate", decay[0]["start"]
        yield f"{prefix}_end_learning_rate", decay[-1]["end"]
        yield f"{prefix}_learning_rate_decay_poly_power", _power(decay)
        yield f"{prefix}_learning_rate_decay_steps", _steps(summary, decay)
    warmup_epochs = warmup[-1]["epochs"][1] if warmup else 0
    yield (
        (f"{prefix}_learning_rate_warmup_epochs" if name == "lars" else "opt_learning_rate_warmup_epochs"),
        warmup_epochs,
    )
    if name == "lars" and "epsilon" in optimizer:
        yield "lars_epsilon", optimizer["epsilon"]
    if name == "sgd" and summary.phases:
        yield "model_bn_span", summary.phases[0].per_device_batch_size


def _segments(summary: RunSummary) -> Sequence[Mapping[str, Any]]:
    lr = summary.recipe.get("lr") or {}
    constant = lr.get("constant")
    if constant is not None:
        return [{"epochs": [0, summary.total_epochs], "start": constant, "end": constant, "shape": "constant"}]
    return list(lr.get("segments") or ())


def _split(summary: RunSummary) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """The segments of the rate that rise from the start on, and the others."""
    segments = _segments(summary)
    rising = next((place for place, part in enumerate(segments) if part["end"] <= part["start"]), len(segments))
    return segments[:rising], segments[rising:]


def _power(decay: Sequence[Mapping[str, Any]]) -> float:
    """Exponent of the decay: a polynomial's own, 1 for a straight line and anything else."""
    return float(decay[0].get("power", 1)) if decay[0].get("shape") == "polynomial" else 1.0


def _steps(summary: RunSummary, decay: Sequence[Mapping[str, Any]]) -> int:
    """Steps from the end of warm-up to the end of the decay."""
    first, last = decay[0]["epochs"][0], decay[-1]["epochs"][1]
    steps = [int(epoch["steps"]) for epoch in summary.started.get("epochs") or ()]

    def until(epoch: float) -> float:
        whole = int(epoch)
        return sum(steps[:whole]) + (epoch - whole) * (steps[whole] if whole < len(steps) else 0)

    return round(until(last) - until(first))


def _problems(summary: RunSummary, org: str | None) -> Iterator[str]:
    """Rules of the closed division that the run does not keep; the compliance checker finds those it looks for."""
    recipe, optimizer = summary.recipe, summary.recipe.get("optimizer") or {}
    best = words.best(summary, "top1")
    if best is None or best.top1 is None or best.top1 < TARGET_TOP1:
        yield f"eval_accuracy: best top-1 is {words.percent(best.top1 if best else None)} %, the target {TARGET_TOP1} %"
    for key, wanted in (("num_train_images", "train_samples"), ("num_val_images", "eval_samples")):
        if summary.started.get(key) != ILSVRC2012[key]:
            yield f"{wanted}: {summary.started.get(key)}, not {ILSVRC2012[key]}"
    _, decay = _split(summary)
    ends = decay[-1]["end"] if decay else None
    if ends != END_LR:
        yield f"end_learning_rate: {ends}, not {END_LR}"
    if decay and optimizer.get("name", "sgd") == "sgd" and not _is_whole(decay[0]["start"] / 0.001):
        yield f"base_learning_rate: {decay[0]['start']}, no multiple of 0.001"
    if not decay:
        yield "learning_rate: the recipe's does not fall, so there is no decay to state"
    if len(decay) > 1 or (decay and decay[0].get("shape") != "polynomial"):
        yield "learning_rate: the recipe's is no single polynomial decay; base, end and steps are those of all its pieces"
    weight_decay = optimizer.get("weight_decay") or 0.0
    if weight_decay <= 0 or not _is_whole(math.log2(weight_decay / 1e-4)):
        yield f"weight_decay: {weight_decay}, not 0.0001 times a power of two"
    if (recipe.get("momentum") or {}).get("constant") is None:
        yield "momentum: the recipe's changes over time, the log has one value"
    if optimizer.get("name") == "lars" and optimizer.get("epsilon") != 0.0:
        yield f"lars_epsilon: {optimizer.get('epsilon', 'not in the record')}, not 0.0"
    if len({phase.global_batch_size for phase in summary.phases}) > 1:
        yield "global_batch_size: it changes over the run; the log has the first"
    if _first_initialise_s(summary) >= MLPERF_INITIALISE_LIMIT_S:
        yield "init_stop: initialisation took 30 minutes or more"
    if len(summary.attempts) > 1:
        yield "run_start: the run was resumed, and the rules know no pause"
    if summary.status == "running":
        yield "run_stop: the run still goes on"
    yield "cache_clear: the record does not say that caches were cleared"
    if not org:
        yield "submission_org: not stated; --author names it"


def _is_whole(value: float) -> bool:
    return math.isclose(value, round(value), abs_tol=1e-9)


def _reaches(row: EpochRow) -> bool:
    return row.top1 is not None and row.top1 >= TARGET_TOP1


def _is_late(row: EpochRow) -> bool:
    """Whether the training went on before the result was known."""
    return (row.known_step or 0) > row.step


def _until_target(rows: Sequence[EpochRow]) -> Sequence[EpochRow]:
    """Validated epochs up to the first that reaches MLPerf's target: its clock stops there."""
    last = next((place for place, row in enumerate(rows) if _reaches(row)), len(rows) - 1)
    return rows[: last + 1]


def _start_ms(summary: RunSummary) -> float:
    """When the first trainer started, in milliseconds since 1970."""
    started = next((attempt.started_utc for attempt in summary.attempts if attempt.started_utc), None)
    return 0.0 if started is None else 1000 * datetime.fromisoformat(started).timestamp()


def _first_initialise_s(summary: RunSummary) -> float:
    """Seconds of initialisation before the first epoch was trained; before all data."""
    spent = summary.epochs[0].spent if summary.epochs else summary.spent
    return float(spent.get("initialise", 0.0))


def _at(began_ms: float, spent: Mapping[Any, float]) -> float:
    return began_ms + 1000 * sum(spent.values())
