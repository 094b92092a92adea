"""The rows of a report's tables as text: the terminal and the page show the same ones."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dawnrun import text
from dawnrun.clock import RULES, SPAN_KINDS, Rule, elapsed_s
from dawnrun.record.summary import Attempt, EpochRow, PhaseRow, RunSummary, Spent
from dawnrun.report import steps, words
from dawnrun.report.claim import Claim, column

Row = tuple[str, ...]

PHASE_COLUMNS: Row = ("phase", "epochs", "px", "batch", "per device", "steps", "images/s", "input wait", "first step")
EPOCH_COLUMNS: Row = ("epoch", "px", "batch", "lr", "loss", "train top-1 %", "top-1 %", "top-5 %", "hours", "images/s")
ATTEMPT_COLUMNS: Row = ("attempt", "started (UTC)", "processes", "steps", "lost", "idle before", "ended")


def run_name(summary: RunSummary) -> str:
    """Name of the run's folder, which tells runs of one recipe apart."""
    return words.plain(Path(summary.path).name or summary.name)


def facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Name and value of what is said once a run."""
    rows = [
        ("run", words.plain(summary.path)),
        ("status", words.status_text(summary)),
        ("best accuracy", words.accuracy_text(words.best(summary, words.leading(summary)))),
        ("final accuracy", words.accuracy_text(words.final(summary))),
        ("cost to target", words.cost_text(summary)),
        ("speed", words.speed_text(summary)),
        ("attempts", words.attempts_text(summary)),
        ("data", words.data_text(summary)),
        ("recipe", words.recipe_text(summary)),
        ("machine", words.machine_text(summary)),
    ]
    rows += [("processes", told) for told in steps.spread_text(summary)]
    return [*rows, *(("validation", f"{epochs}: {how}") for epochs, how in words.views(summary))]


def target_clock(summary: RunSummary) -> list[Row]:
    """Time to the target under each rule, in h:mm:ss and in seconds, then its parts; without a number if not reached."""
    crossing = summary.crossing()
    if crossing is None:
        return [("time to target", *("not reached" for _ in RULES))] if words.thresholds(summary) else []
    spent = {rule: words.spent_until(crossing, rule) for rule in RULES}
    return [
        ("time to target", *(text.duration(elapsed_s(spent[rule], rule)) for rule in RULES)),
        ("in seconds", *(f"{elapsed_s(spent[rule], rule):,.1f} s" for rule in RULES)),
        *_parts(spent),
    ]


def whole_clock(summary: RunSummary) -> list[Row]:
    """The whole run's time under each rule, to its last event, then its parts."""
    total = ("whole run", *(f"{elapsed_s(summary.spent, rule):,.1f} s" for rule in RULES))
    return [total, *_parts(dict.fromkeys(RULES, summary.spent))]


def _parts(spent: Mapping[Rule, Spent]) -> list[Row]:
    """One row per kind of span; `-` where a rule leaves its seconds out."""
    rows = []
    for kind in SPAN_KINDS:
        cells = []
        for rule in RULES:
            part = words.counted(spent[rule], rule)[kind]
            left_out = part == 0 and spent[rule].get(kind, 0.0) > 0
            cells.append("-" if left_out else f"{part:,.1f} s")
        rows.append((f"  {kind}", *cells))
    return rows


TIME_COLUMNS: Row = ("where the time went", "seconds", "share")


def time_cells(summary: RunSummary) -> list[Row]:
    """The whole run's time by part, as seconds and as a share of all."""
    total = sum(summary.spent.values())
    parts = [*steps.time_parts(summary), ("whole run", total)]
    return [(name, f"{value:,.1f} s", f"{100 * value / total:.1f} %" if total else "-") for name, value in parts]


def phase_cells(row: PhaseRow) -> Row:
    """The cells of one phase."""
    return (
        str(row.phase_index + 1),
        words.span(row.first_epoch, row.last_epoch),
        str(row.image_size),
        text.count(row.global_batch_size),
        f"{row.per_device_batch_size} x {row.accumulate_steps}",
        text.count(row.steps),
        words.number(row.images_per_second, ",.1f"),
        text.seconds(row.input_wait_s),
        "-" if row.first_step_s is None else text.seconds(row.first_step_s),
    )


def epoch_cells(row: EpochRow) -> Row:
    """The cells of one epoch; hours by DAWNBench's clock when the epoch's weights were frozen."""
    return (
        str(row.epoch),
        str(row.image_size),
        text.count(row.global_batch_size),
        f"{row.lr_last:.4g}",
        words.number(row.train_loss, ".4f"),
        words.percent(row.train_top1),
        words.percent(row.top1),
        words.percent(row.top5),
        f"{elapsed_s(row.spent, 'dawnbench') / 3600:.4f}",
        words.number(row.images_per_second, ",.1f"),
    )


def attempt_cells(attempt: Attempt) -> Row:
    """The cells of one attempt."""
    return (
        str(attempt.number),
        words.plain(attempt.started_utc[:19].replace("T", " ")),
        str(attempt.world_size),
        words.span(attempt.first_step, attempt.last_step),
        text.count(attempt.lost_steps),
        words.clock_text(attempt.idle_s),
        words.plain(attempt.ended.replace("_", " ")),
    )


def comparison(summaries: Sequence[RunSummary], claims: Sequence[Claim] = ()) -> list[Row]:
    """Name and one value per run, then one per claim of others, of what is compared."""
    columns = [column(claim) for claim in claims]
    lines = [(*line, *(cells.get(line[0], "-") for cells in columns)) for line in _runs_compared(summaries)]
    return [line for line in lines if summaries or set(line[1:]) != {"-"}]


def _runs_compared(summaries: Sequence[RunSummary]) -> list[Row]:
    """Name and one value per run."""

    def row(name: str, values: Iterable[str]) -> Row:
        return (name, *values)

    crossings = [summary.crossing() for summary in summaries]
    costs = [summary.cost_to_accuracy_usd() for summary in summaries]
    tops = [(words.best(summary, "top5"), words.best(summary, "top1"), words.final(summary)) for summary in summaries]
    return [
        row("kind", ("run" for _ in summaries)),
        row("outcome", map(_short_outcome, summaries)),
        row("target", (words.target_text(summary) or "none" for summary in summaries)),
        row("epoch of crossing", (str(crossing.epoch) if crossing else "-" for crossing in crossings)),
        *(
            row(f"time, {rule}", (words.clock_text(c.time_to_accuracy_s(rule)) if c else "-" for c in crossings))
            for rule in RULES
        ),
        row("cost to target", ("-" if cost is None else text.money(cost) for cost in costs)),
        row("best top-5 %", (words.percent(top5.top5 if top5 else None) for top5, _, _ in tops)),
        row("best top-1 %", (words.percent(top1.top1 if top1 else None) for _, top1, _ in tops)),
        row("final top-5 %", (words.percent(last.top5 if last else None) for _, _, last in tops)),
        row("final top-1 %", (words.percent(last.top1 if last else None) for _, _, last in tops)),
        row(
            "final training top-1 %", (words.percent(s.epochs[-1].train_top1 if s.epochs else None) for s in summaries)
        ),
        row("epochs done", (f"{len(summary.epochs)} of {summary.total_epochs}" for summary in summaries)),
        row("images/s", (words.number(summary.images_per_second, ",.1f") for summary in summaries)),
        row("attempts", (str(len(summary.attempts)) for summary in summaries)),
        row("lost steps", (text.count(words.lost_steps(summary)) for summary in summaries)),
        row("seed", (words.plain(summary.recipe.get("seed", "?")) for summary in summaries)),
        row("recipe", (words.plain(summary.recipe.get("name", "?")) for summary in summaries)),
        row("machine", (words.machine_text(summary) for summary in summaries)),
    ]


def _short_outcome(summary: RunSummary) -> str:
    """Outcome in a word or two, for a column."""
    if summary.crossing() is not None:
        return "reached"
    if summary.status != "finished":
        return summary.status
    return "not reached" if words.thresholds(summary) else "no target"
