"""One HTML page about one or more runs that needs no network: styles and charts are inside it, scripts there are none."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dawnrun import __version__
from dawnrun.clock import RULES
from dawnrun.record.summary import RunSummary
from dawnrun.report import against, rows, seeds, steps, words
from dawnrun.report.claim import NO_OTHERS, Claim, Others, column, remarks


def html_page(summaries: Sequence[RunSummary], others: Others = NO_OTHERS) -> tuple[str, tuple[str, ...]]:
    """The page's text, and a warning for each chart that could not be drawn; the page then says so in its place."""
    charts, warnings = _charts(summaries, others)
    environment = Environment(
        loader=PackageLoader("dawnrun.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        version=__version__,
        charts=charts,
        runs=[_run(summary, others) for summary in summaries],
        seed_groups=[_seeds(found) for found in seeds.group(summaries)],
        seed_columns=seeds.RUN_COLUMNS,
        seed_figure_columns=seeds.FIGURE_COLUMNS,
        names=[rows.run_name(summary) for summary in summaries],
        claims=[_claim(claim) for claim in others.claims],
        comparison=rows.comparison(summaries, others.claims) if len(summaries) + len(others.claims) > 1 else [],
        rules=RULES,
        rule_meaning=words.RULE_MEANING,
        time_columns=rows.TIME_COLUMNS,
        phase_columns=rows.PHASE_COLUMNS,
        step_columns=steps.STEP_COLUMNS,
        epoch_columns=rows.EPOCH_COLUMNS,
        attempt_columns=rows.ATTEMPT_COLUMNS,
    )
    return page, tuple(warnings)


def _charts(summaries: Sequence[RunSummary], others: Others) -> tuple[list[dict[str, str]], list[str]]:
    """Title and data address of every chart (no address for one that failed), and the failures."""
    try:
        from dawnrun.report.charts import CHARTS, draw
    except Exception as error:  # noqa: BLE001 - a broken plotting library must not cost the report
        return [], [f"no charts: {type(error).__name__}: {error}"]
    charts: list[dict[str, str]] = []
    warnings = []
    for name, title, chart in CHARTS:
        chart_entry = {"name": name, "title": title, "address": ""}
        try:
            svg = draw(chart, summaries, others).encode()
            chart_entry["address"] = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
        except Exception as error:  # noqa: BLE001 - whatever a chart fails by, the figures are still there
            warnings.append(f"chart {name} could not be drawn: {type(error).__name__}: {error}")
        charts.append(chart_entry)
    return charts, warnings


def _claim(claim: Claim) -> dict[str, Any]:
    """What the page says about a claim of others."""
    cells = [(name, value) for name, value in column(claim).items() if value != "-"]
    known = (("by", claim.organisation), ("date", claim.date), ("validation images", claim.validation_images))
    return {
        "name": words.plain(claim.name),
        "facts": [*((name, words.plain(value)) for name, value in known if value), *cells],
        "remarks": remarks(claim),
    }


def _seeds(found: seeds.Group) -> dict[str, Any]:
    """What the page says about runs that differ in their seed."""
    return {
        "outcome": seeds.headline(found),
        "runs": [seeds.run_cells(run) for run in found.runs],
        "figures": seeds.figure_cells(found),
        "all_reached": found.num_reached == len(found.runs),
    }


def _against(summary: RunSummary, record: Claim) -> dict[str, Any]:
    """What the page says about a run beside a published record."""
    found = against.against(summary, record)
    return {
        "outcome": against.headline(found),
        "remarks": against.remarks(found),
        "columns": against.columns(summary, found),
        "beside": found.beside,
    }


def _run(summary: RunSummary, others: Others) -> dict[str, Any]:
    """What the page says about one run."""
    crossing = summary.crossing()
    started = summary.started
    return {
        "name": rows.run_name(summary),
        "outcome": words.outcome(summary),
        "alarms": [words.plain(fault) for fault in summary.seal_faults],
        "reached": crossing is not None,
        "crossing_epoch": "" if crossing is None else str(crossing.epoch),
        "target_clock": rows.target_clock(summary),
        "whole_clock": rows.whole_clock(summary),
        "facts": rows.facts(summary),
        "remarks": [words.plain(remark) for remark in summary.remarks],
        "against": [_against(summary, record) for record in others.records],
        "time": rows.time_cells(summary),
        "phases": [rows.phase_cells(row) for row in summary.phases],
        "steps": steps.step_rows(summary),
        "epochs": [rows.epoch_cells(row) for row in summary.epochs],
        "attempts": [rows.attempt_cells(attempt) for attempt in summary.attempts],
        "settings": [
            ("Machine", list(_leaves(started.get("machine") or {}))),
            ("Versions", [*_leaves(started.get("versions") or {}), ("commit", str(started.get("git_commit")))]),
            ("Start-up, seconds", [(name, f"{value:.2f}") for name, value in summary.startup_s.items()]),
            ("Recipe as it ran", list(_leaves(summary.recipe))),
            ("Site", list(_leaves(summary.site))),
        ],
    }


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every value of nested mappings and lists with its place, as `lr.segments[0].start`."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{place}[{number}]")
    else:
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else "-" if value is None else str(value)
        yield words.plain(place), words.plain(shown) or "-"
