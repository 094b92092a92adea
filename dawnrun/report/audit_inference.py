"""Audits anyone's DAWNBench inference entry: one JSON with a latency, a price per image and an accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from pathlib import Path

from dawnrun.report.defect import Defect
from dawnrun.report.entry import read_bytes
from dawnrun.report.entry_json import JsonEntry, read_json
from dawnrun.report.naive import TARGET_TOP5

MS_PER_HOUR = 3_600_000
PLAUSIBLE_USD_PER_HOUR = (Decimal("0.005"), Decimal(500))
"""What one machine that answers one image at a time can cost; outside, `cost` is not USD per image."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferenceFigures:
    """Figures of an inference entry; ranks start at 1 and ties share one. None where absent."""

    file: str
    team: str | None = None
    timestamp: str | None = None
    model: str | None = None
    framework: str | None = None
    hardware: str | None = None
    latency_ms: Decimal | None = None
    cost_usd_per_image: Decimal | None = None
    top5: Decimal | None = None
    usedBlacklist: str | None = None  # noqa: N815 the competition's own name
    rank_latency: int | None = None
    rank_cost: int | None = None
    cost_usd_per_10k: Decimal | None = None
    implied_usd_per_hour: Decimal | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InferenceAudit:
    """What an inference entry says and what is wrong with it."""

    figures: InferenceFigures
    defects: tuple[Defect, ...]
    notes: tuple[str, ...]


def audit_inference(json: Path) -> InferenceAudit:
    """Audit an inference entry. ReportError where the file cannot be read at all."""
    with localcontext(Context(prec=40)):
        entry = read_json(read_bytes(json), str(json))
        figures = _figures(entry, json.stem)
        notes = list(entry.notes)
        if figures.implied_usd_per_hour is not None:
            notes.append(f"cost / latency: a machine at {figures.implied_usd_per_hour:.3f} USD an hour")
        return InferenceAudit(figures=figures, defects=(*entry.defects, *_judge(entry, figures)), notes=tuple(notes))


def _figures(entry: JsonEntry, file: str) -> InferenceFigures:
    latency, cost, top5 = entry.number("latency"), entry.number("cost"), entry.number("top5Accuracy")
    if top5 is not None and 0 < top5 <= 1:
        top5 = top5.scaleb(2)
    blacklist = entry.fields.get("usedBlacklist")
    return InferenceFigures(
        file=file,
        team=entry.text("author"),
        timestamp=entry.text("timestamp"),
        model=entry.text("model"),
        framework=entry.text("framework"),
        hardware=entry.text("hardware"),
        latency_ms=latency,
        cost_usd_per_image=cost,
        top5=top5,
        usedBlacklist=None if blacklist is None else str(blacklist).lower(),
        cost_usd_per_10k=None if cost is None else cost * 10_000,
        implied_usd_per_hour=cost * MS_PER_HOUR / latency if cost and latency and latency > 0 else None,
    )


def _judge(entry: JsonEntry, figures: InferenceFigures) -> list[Defect]:
    """Values that the competition does not take, and a cost that no machine's price explains."""
    found = []
    printed = entry.number("top5Accuracy")
    if printed is not None and 0 < printed <= 1:
        found.append(("accuracy_0_to_1", "top5Accuracy", f"top5Accuracy {printed} is a fraction; the form has percent"))
    if figures.top5 is not None and figures.top5 < TARGET_TOP5:
        message = f"top5Accuracy {figures.top5} is below {TARGET_TOP5}"
        found.append(("top5Accuracy_below_93", "top5Accuracy", message))
    if figures.top5 is not None and figures.top5 > 100:
        found.append(("accuracy_above_100", "top5Accuracy", f"top5Accuracy {figures.top5} is above 100 %"))
    if figures.latency_ms is not None and figures.latency_ms <= 0:
        found.append(("latency_not_positive", "latency", f"latency is {figures.latency_ms} ms"))
    low, high = PLAUSIBLE_USD_PER_HOUR
    implied = figures.implied_usd_per_hour
    if implied is not None and not low <= implied <= high:
        message = f"cost / latency would be a machine at {implied:.4g} USD an hour: cost is not USD per image"
        found.append(("cost_not_usd_per_image", "cost", message))
    return [
        Defect(code=code, file=entry.file, line=entry.lines.get(key, 1), message=message)
        for code, key, message in found
    ]


def rank(audits: Sequence[InferenceAudit]) -> list[InferenceAudit]:
    """The audits with their ranks among each other, by latency then file."""
    latencies = [audit.figures.latency_ms for audit in audits if audit.figures.latency_ms is not None]
    costs = [audit.figures.cost_usd_per_image for audit in audits if audit.figures.cost_usd_per_image is not None]
    ranked = [
        replace(
            audit,
            figures=replace(
                audit.figures,
                rank_latency=_rank(audit.figures.latency_ms, latencies),
                rank_cost=_rank(audit.figures.cost_usd_per_image, costs),
            ),
        )
        for audit in audits
    ]
    return sorted(ranked, key=lambda audit: (audit.figures.rank_latency or len(audits) + 1, audit.figures.file))


def _rank(value: Decimal | None, among: Sequence[Decimal]) -> int | None:
    return None if value is None else 1 + sum(other < value for other in among)
