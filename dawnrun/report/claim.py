"""What others say of a run of theirs, in one form: a DAWNBench entry, an MLPerf result log, a published record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dawnrun import text
from dawnrun.clock import RULES, Rule
from dawnrun.report import words


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimRow:
    """One validation of a claim: an epoch from 1, hours of its own clock, percent."""

    epoch: float | None
    hours: float | None
    top1: float | None
    top5: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """Figures as claimed, None where they are not known; `rule`: that of clock.py nearest to the stated clock.

    `seconds` is the time to `target`, `top1` and `top5` percent when it was reached; `defects` are codes of the audit.
    """

    kind: Literal["DAWNBench entry", "MLPerf result log", "published record"]
    name: str
    source: str
    organisation: str | None = None
    date: str | None = None
    hardware: str | None = None
    model: str | None = None
    target: str | None = None
    reached: bool | None = None
    seconds: float | None = None
    rule: Rule = "dawnbench"
    clock_contains: str | None = None
    epoch: float | None = None
    top1: float | None = None
    top5: float | None = None
    best_top1: float | None = None
    best_top5: float | None = None
    validation_images: str | None = None
    cost_usd: float | None = None
    rows: tuple[ClaimRow, ...] = ()
    defects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Others:
    """What runs are shown beside: claims read from files, and published records that they are compared with."""

    claims: tuple[Claim, ...] = ()
    records: tuple[Claim, ...] = ()


NO_OTHERS = Others()


def column(claim: Claim) -> dict[str, str]:
    """The claim's cells in a comparison of runs, by the name of the row."""
    outcome = {True: "reached", False: "not reached", None: "claimed" if claim.seconds is not None else "-"}
    clock = "-" if claim.seconds is None else words.clock_text(claim.seconds)
    return {
        "kind": claim.kind,
        "outcome": outcome[claim.reached],
        "target": words.plain(claim.target or "-"),
        "epoch of crossing": words.number(claim.epoch, "g"),
        **{f"time, {rule}": clock if rule == claim.rule else "-" for rule in RULES},
        "cost to target": "-" if claim.cost_usd is None else text.money(claim.cost_usd),
        "best top-5 %": words.percent(claim.best_top5),
        "best top-1 %": words.percent(claim.best_top1),
        "final top-5 %": words.percent(claim.rows[-1].top5 if claim.rows else None),
        "final top-1 %": words.percent(claim.rows[-1].top1 if claim.rows else None),
        "recipe": words.plain(claim.model or "-"),
        "machine": words.plain(claim.hardware or "-"),
    }


def remarks(claim: Claim) -> Sequence[str]:
    """What a reader must know beside the claim's figures, in plain words."""
    told = [f"{claim.kind}; its clock contains: {claim.clock_contains or 'not published'}"]
    if claim.defects:
        told.append(f"malformed: {', '.join(claim.defects)} (report --audit has the lines)")
    return [words.plain(remark) for remark in (*told, *claim.notes)]
