"""Runs and claims as CSV, one line each with exact figures, and as Markdown for an issue or a README."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from dawnrun.clock import RULES
from dawnrun.record.summary import RunSummary
from dawnrun.report import against, rows, seeds, words
from dawnrun.report.claim import NO_OTHERS, Claim, Others, remarks

COLUMNS = (
    "kind", "name", "recipe", "seed", "outcome", "target", "epoch_of_crossing", "top5_at_crossing", "top1_at_crossing",
    *(f"{rule}_s" for rule in RULES), "cost_usd", "best_top5", "best_top1", "final_top5", "final_top1", "final_train_top1", "epochs_done",
    "total_epochs", "images_per_second", "attempts", "lost_steps", "nodes", "processes", "device", "hardware",
    "train_images", "validation_images", "status", "git_commit", "source", "seal_faults",
)  # fmt: skip
"""Columns of the CSV; seconds, percent and USD unrounded, empty where not known."""


def csv_text(summaries: Sequence[RunSummary], others: Others = NO_OTHERS) -> str:
    """A header and one line per run, then one per claim and published record."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(_run(summary) for summary in summaries)
    writer.writerows(_claim(claim) for claim in (*others.claims, *others.records))
    return text.getvalue()


def _run(summary: RunSummary) -> Mapping[str, Any]:
    crossing, started = summary.crossing(), summary.started
    top5, top1, final = words.best(summary, "top5"), words.best(summary, "top1"), words.final(summary)
    asked = words.thresholds(summary)
    return {
        "kind": "run",
        "name": rows.run_name(summary),
        "recipe": words.plain(summary.recipe.get("name", "")),
        "seed": summary.recipe.get("seed"),
        "outcome": "reached" if crossing else "not reached" if asked else "no target",
        "target": " and ".join(f"{name}>={percent:g}" for name, percent in asked.items()),
        "epoch_of_crossing": crossing and crossing.epoch,
        "top5_at_crossing": crossing and crossing.top5,
        "top1_at_crossing": crossing and crossing.top1,
        **{f"{rule}_s": crossing and crossing.time_to_accuracy_s(rule) for rule in RULES},
        "cost_usd": summary.cost_to_accuracy_usd(),
        "best_top5": top5 and top5.top5,
        "best_top1": top1 and top1.top1,
        "final_top5": final and final.top5,
        "final_top1": final and final.top1,
        "final_train_top1": summary.epochs[-1].train_top1 if summary.epochs else None,
        "epochs_done": len(summary.epochs),
        "total_epochs": summary.total_epochs,
        "images_per_second": summary.images_per_second,
        "attempts": len(summary.attempts),
        "lost_steps": words.lost_steps(summary),
        "nodes": summary.nodes,
        "processes": started.get("world_size"),
        "device": started.get("device"),
        "hardware": words.plain(started.get("device_name") or ""),
        "seal_faults": words.plain("; ".join(summary.seal_faults)),
        "train_images": started.get("num_train_images"),
        "validation_images": started.get("num_val_images"),
        "status": summary.status,
        "git_commit": started.get("git_commit"),
        "source": words.plain(summary.path),
    }


def _claim(claim: Claim) -> Mapping[str, Any]:
    outcome = {True: "reached", False: "not reached", None: "claimed"}
    return {
        "kind": claim.kind,
        "name": words.plain(claim.name),
        "recipe": words.plain(claim.model or ""),
        "outcome": outcome[claim.reached],
        "target": words.plain(claim.target or ""),
        "epoch_of_crossing": claim.epoch,
        "top5_at_crossing": claim.top5,
        "top1_at_crossing": claim.top1,
        f"{claim.rule}_s": claim.seconds,
        "cost_usd": claim.cost_usd,
        "best_top5": claim.best_top5,
        "best_top1": claim.best_top1,
        "hardware": words.plain(claim.hardware or ""),
        "validation_images": words.plain(claim.validation_images or ""),
        "source": words.plain(claim.source),
    }


def markdown_text(summaries: Sequence[RunSummary], others: Others = NO_OTHERS) -> str:
    """Outcomes, one table of all, seeds, published records, notes; one run's clocks and epochs too."""
    names = [*map(rows.run_name, summaries), *(words.plain(claim.name) for claim in others.claims)]
    parts = [f"**{_text(rows.run_name(run))}**: {_text(words.outcome(run))}\n" for run in summaries]
    parts.append(_table(("", *names), rows.comparison(summaries, others.claims)))
    if len(summaries) == 1:
        parts.append(_table(("clock", *RULES), rows.target_clock(summaries[0]) or rows.whole_clock(summaries[0])))
        parts.append(_table(rows.EPOCH_COLUMNS, map(rows.epoch_cells, summaries[0].epochs)))
    for found in seeds.group(summaries):
        parts.append(f"{_text(seeds.headline(found))}\n")
        parts.append(_table(seeds.RUN_COLUMNS, map(seeds.run_cells, found.runs)))
        parts.append(_table(seeds.FIGURE_COLUMNS, seeds.figure_cells(found)))
    notes = [(rows.run_name(run), remark) for run in summaries for remark in run.remarks]
    for run in summaries:
        for record in others.records:
            compared = against.against(run, record)
            parts.append(f"{_text(rows.run_name(run))} {_text(against.headline(compared))}\n")
            parts.append(_table(against.columns(run, compared), compared.beside))
            notes += [(rows.run_name(run), remark) for remark in against.remarks(compared)]
    notes += [(claim.name, remark) for claim in others.claims for remark in remarks(claim)]
    parts.append("".join(f"- {_text(name)}: {_text(remark)}\n" for name, remark in notes))
    return "\n".join(part for part in parts if part)


def _table(head: rows.Row, lines: Any) -> str:
    """A pipe table."""
    body = [head, tuple("---" for _ in head), *lines]
    return "".join(f"| {' | '.join(_text(cell.strip()) for cell in line)} |\n" for line in body)


def _text(value: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return "".join(f"\\{char}" if char in "\\`*[]<>|" else char for char in words.plain(value))
