"""Audits as text: table rows for people, strict JSON with exact figures for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal

from dawnrun.report.audit import Audit
from dawnrun.report.audit_inference import InferenceAudit
from dawnrun.report.defect import Defect

Audits = Sequence[Audit | InferenceAudit]
HEAD = ("entry", "time", "epoch", "top-5", "cost, USD", "validation images", "defects")
INFERENCE_HEAD = ("entry", "latency, ms", "rank", "USD per 10,000", "rank", "top-5", "defects")


def audit_table(audits: Sequence[Audit]) -> list[tuple[str, ...]]:
    """The header and one row per training entry; `-` is what the entry does not decide."""
    return [HEAD, *(_row(audit) for audit in audits)]


def _row(audit: Audit) -> tuple[str, ...]:
    figures = audit.figures
    return (
        figures.file,
        _cell(figures.clock_leaderboard),
        _cell(figures.epoch_top5_93),
        _cell(figures.top5_at_crossing),
        "-" if figures.cost_usd_2dp is None else str(figures.cost_usd_2dp),
        _cell(figures.val_images),
        "; ".join(codes(audit.defects)) or "none",
    )


def inference_table(audits: Sequence[InferenceAudit]) -> list[tuple[str, ...]]:
    """The header and one row per inference entry."""
    return [INFERENCE_HEAD, *(_inference_row(audit) for audit in audits)]


def _inference_row(audit: InferenceAudit) -> tuple[str, ...]:
    figures = audit.figures
    return (
        figures.file,
        _cell(figures.latency_ms),
        _cell(figures.rank_latency),
        _cell(figures.cost_usd_per_10k),
        _cell(figures.rank_cost),
        _cell(figures.top5),
        "; ".join(codes(audit.defects)) or "none",
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with columns two blanks apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def audit_remarks(audits: Audits) -> str:
    """Every defect with its place, and what must be said beside the figures."""
    lines: list[str] = []
    for audit in audits:
        lines += map(str, audit.defects)
        lines += [f"{audit.figures.file}: note: {note}" for note in audit.notes]
    return "\n".join(lines)


def audit_json(audits: Audits) -> str:
    """One object for one entry, a list for several: the figures by name, `defects` and `notes`."""
    entries = [
        {
            **asdict(audit.figures),
            "defects": [asdict(defect) for defect in audit.defects],
            "notes": list(audit.notes),
        }
        for audit in audits
    ]
    return dumps(entries[0] if len(entries) == 1 else entries)


def codes(defects: Sequence[Defect]) -> tuple[str, ...]:
    """Codes in order of appearance, each once."""
    return tuple(dict.fromkeys(defect.code for defect in defects))


def dumps(value: object, indent: str = "") -> str:
    """Strict JSON text. A Decimal is written with all its digits: as a float it would lose some."""
    deeper = indent + "  "
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, dict) and value:
        members = [f"{deeper}{json.dumps(key)}: {dumps(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(deeper + dumps(item, deeper) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def plain(value: Decimal) -> str:
    """Digits without exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _cell(value: Decimal | int | str | None) -> str:
    if value is None:
        return "-"
    return plain(value) if isinstance(value, Decimal) else str(value)
