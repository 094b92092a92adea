"""`report.json`: everything known about runs as strict JSON with stable keys (docs/reports.md)."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

from dawnrun import __version__
from dawnrun.clock import RULES, SPAN_KINDS, Rule, elapsed_s
from dawnrun.record.summary import Crossing, EpochRow, RunSummary, Spent
from dawnrun.report import seeds, words
from dawnrun.report.against import against
from dawnrun.report.claim import NO_OTHERS, Others

SCHEMA_VERSION = 1
_STARTED_ELSEWHERE = ("recipe", "site", "versions", "git_commit", "machine", "epochs")


def report_json(summaries: Sequence[RunSummary], others: Others = NO_OTHERS) -> str:
    """Text of report.json: versions, `runs`, `claims` of others. Never NaN or infinity: null, with its reason."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "dawnrun_version": __version__,
        "runs": [_run_beside(summary, others) for summary in summaries],
        "seeds": [_plain(seeds.document(found)) for found in seeds.group(summaries)],
        "claims": [_plain(claim) for claim in others.claims],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _run_beside(summary: RunSummary, others: Others) -> dict[str, Any]:
    """A run with its comparisons with published records."""
    found = [{"name": record.name, **_fields(against(summary, record))} for record in others.records]
    return {**run_document(summary), "against": _plain(found)}


def run_document(summary: RunSummary) -> dict[str, Any]:
    """One run as plain values; `null_reasons` says why a value that a reader would look for is null."""
    started = summary.started
    raw = {
        "run": {
            "id": summary.run_id,
            "name": summary.name,
            "path": summary.path,
            "status": summary.status,
            "reason": summary.reason,
            "outcome": words.outcome(summary),
            "seal_faults": summary.seal_faults,
        },
        "target": {**words.thresholds(summary), "reached": summary.crossing() is not None},
        "time_to_accuracy": _time_to_accuracy(summary.crossing()),
        "time_spent": {rule: _clock(summary.spent, rule) for rule in RULES},
        "rules": dict(words.RULE_MEANING),
        "crossings": [_crossing(crossing) for crossing in summary.crossings],
        "accuracy": {
            "best_top5": _accuracy(words.best(summary, "top5")),
            "best_top1": _accuracy(words.best(summary, "top1")),
            "final": _accuracy(words.final(summary)),
        },
        "cost": {
            "nodes": summary.nodes,
            "usd_per_node_hour": summary.site.get("usd_per_node_hour"),
            "usd_per_hour": summary.usd_per_hour,
            "cost_to_accuracy_usd": {rule: summary.cost_to_accuracy_usd(rule) for rule in RULES},
        },
        "speed": {
            "images_per_second": summary.images_per_second,
            "input_wait_s": summary.input_wait_s,
            "skipped_steps": summary.skipped_steps,
            "steps_done": summary.steps_done,
        },
        "schedule": {
            "total_epochs": summary.total_epochs,
            "total_steps": summary.total_steps,
            "epochs": started.get("epochs") or [],
        },
        "epochs": [{**_fields(row), "hours": elapsed_s(row.spent, "dawnbench") / 3600} for row in summary.epochs],
        "phases": summary.phases,
        "progress": summary.progress,
        "attempts": summary.attempts,
        "lost_steps": words.lost_steps(summary),
        "startup_s": summary.startup_s,
        "machine": started.get("machine"),
        "versions": started.get("versions"),
        "git_commit": started.get("git_commit"),
        "started": {key: value for key, value in started.items() if key not in _STARTED_ELSEWHERE},
        "recipe": summary.recipe,
        "site": summary.site,
        "checkpoints": summary.checkpoints,
        "bad_images": summary.bad_images,
        "failures": summary.failures,
        "remarks": summary.remarks,
    }
    document: dict[str, Any] = _plain(raw)
    not_finite = dict.fromkeys(_not_finite(raw, ""), "not a finite number")
    document["null_reasons"] = {**_null_reasons(summary), **not_finite}
    return document


def _time_to_accuracy(crossing: Crossing | None) -> dict[str, Any] | None:
    """All four clocks at the target's crossing; None if it was not reached."""
    return None if crossing is None else {rule: _clock(words.spent_until(crossing, rule), rule) for rule in RULES}


def _clock(spent: Spent, rule: Rule) -> dict[str, Any]:
    """Seconds under a rule, the parts that count (their sum), and the seconds that were left out."""
    parts = words.counted(spent, rule)
    left_out = {kind: spent.get(kind, 0.0) - parts[kind] for kind in SPAN_KINDS}
    return {"seconds": elapsed_s(spent, rule), "parts_s": parts, "left_out_s": left_out}


def _crossing(crossing: Crossing) -> dict[str, Any]:
    """A crossing with its time under every rule."""
    return {**_fields(crossing), "time_to_accuracy_s": {rule: crossing.time_to_accuracy_s(rule) for rule in RULES}}


def _accuracy(row: EpochRow | None) -> dict[str, Any] | None:
    """An epoch's accuracies in percent."""
    return None if row is None else {"epoch": row.epoch, "top5": row.top5, "top1": row.top1}


def _fields(value: Any) -> Any:
    """A dataclass as a mapping of its fields; anything else as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value


def _plain(value: Any) -> Any:
    """Values that JSON has: dataclasses and mappings to objects, sequences to lists, what is not finite to None."""
    value = _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    # Unpaired surrogates (a path that is no UTF-8) cannot be written as UTF-8.
    return (str(value) if isinstance(value, str | PurePath) else repr(value)).encode(errors="replace").decode()


def _not_finite(value: Any, place: str) -> Iterator[str]:
    """Where NaN and infinity are, as `epochs[3].train_loss`."""
    value = _fields(value)
    if isinstance(value, float) and not math.isfinite(value):
        yield place
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_finite(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _not_finite(item, f"{place}[{number}]")


def _null_reasons(summary: RunSummary) -> dict[str, str]:
    """Why a figure is null."""
    reasons: dict[str, str] = {}
    if summary.crossing() is None:
        asked = bool(words.thresholds(summary))
        reasons["time_to_accuracy"] = "the target was not reached" if asked else "no target was asked"
        reasons["cost.cost_to_accuracy_usd"] = reasons["time_to_accuracy"]
    if summary.usd_per_hour is None:
        reasons["cost.cost_to_accuracy_usd"] = "the site has no usd_per_node_hour"
    for number, row in enumerate(summary.epochs):
        if row.train_loss is None:
            reasons[f"epochs[{number}].train_loss"] = "the loss was not finite"
        if row.train_top1 is None:
            reasons[f"epochs[{number}].train_top1"] = "not counted: images were mixed, or an older dawnrun ran"
        if row.top5 is None:
            invalid = row.validation.get("valid") is False
            why = "the validation's outputs were not finite" if invalid else "not validated"
            reasons[f"epochs[{number}].top5"] = reasons[f"epochs[{number}].top1"] = why
    for number, phase in enumerate(summary.phases):
        if not phase.parts_s:
            reasons[f"phases[{number}].parts_s"] = "empty: no step was timed"
    for number, point in enumerate(summary.progress):
        if point.loss is None:
            reasons[f"progress[{number}].loss"] = "the loss was not finite"
    return reasons
