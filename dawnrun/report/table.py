"""The report on a terminal: one run in full, several side by side."""

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dawnrun import text
from dawnrun.clock import RULES, SPAN_KINDS, Rule, elapsed_s
from dawnrun.record.summary import EpochRow, RunSummary, Spent
from dawnrun.report import words


def terminal_report(summaries: Sequence[RunSummary], *, width: int = 80) -> RenderableType:
    """Everything the terminal shows: one run with its epochs, or a comparison of several and what is to be remarked."""
    if len(summaries) == 1:
        return Group(*_single(summaries[0]))
    return Group(*_comparison(summaries, width), *(part for summary in summaries for part in _notes(summary)))


def _single(summary: RunSummary) -> Iterator[RenderableType]:
    """The parts of one run's report; the outcome comes last too, where a long table has not scrolled it away."""
    yield _headline(summary)
    yield _facts(summary)
    yield times_table(summary)
    yield phases_table(summary)
    yield epochs_table(summary)
    yield from _notes(summary)
    yield _headline(summary)


def _headline(summary: RunSummary) -> Text:
    """The run's name and its outcome."""
    good = summary.crossing() is not None
    colour = "bold green" if good else "bold yellow"
    return Text.assemble(Text(f"{words.plain(summary.name)}: ", "bold"), Text(words.outcome(summary), colour))


def _facts(summary: RunSummary) -> Table:
    """Name and value of what is said once a run."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts(summary):
        table.add_row(name, Text(value))
    return table


def facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Name and value of what is said once a run; the page shows the same."""
    rows = [
        ("run", words.plain(summary.path)),
        ("status", words.status_text(summary)),
        ("best accuracy", words.accuracy_text(words.best(summary, "top5"))),
        ("final accuracy", words.accuracy_text(words.final(summary))),
        ("cost to target", words.cost_text(summary)),
        ("speed", speed_text(summary)),
        ("attempts", words.attempts_text(summary)),
        ("data", words.data_text(summary)),
        ("recipe", words.recipe_text(summary)),
        ("machine", words.machine_text(summary)),
    ]
    return [*rows, *(("validation", f"{epochs}: {how}") for epochs, how in words.views(summary))]


def speed_text(summary: RunSummary) -> str:
    """Images per second over the training time, and how much of it went into waiting for images."""
    if summary.images_per_second is None:
        return "not measured"
    training_s = summary.spent.get("training", 0.0)
    share = f", {100 * summary.input_wait_s / training_s:.1f} % of it waiting for input" if training_s > 0 else ""
    return f"{summary.images_per_second:,.1f} images/s over {words.clock_text(training_s)} of training{share}"


def times_table(summary: RunSummary) -> Table:
    """The four clocks with their parts: until the target where it was reached, and for the whole run."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("clock")
    for rule in RULES:
        table.add_column(rule, justify="right")
    crossing = summary.crossing()
    if crossing is not None:
        spent = {rule: words.spent_until(crossing, rule) for rule in RULES}
        table.add_row("time to target", *(Text(text.duration(elapsed_s(spent[rule], rule)), "bold") for rule in RULES))
        table.add_row("in seconds", *(f"{elapsed_s(spent[rule], rule):,.1f} s" for rule in RULES))
        _add_parts(table, spent)
    elif words.thresholds(summary):
        table.add_row("time to target", *("not reached" for _ in RULES))
    table.add_section()
    table.add_row("whole run", *(f"{elapsed_s(summary.spent, rule):,.1f} s" for rule in RULES))
    if crossing is None:
        _add_parts(table, dict.fromkeys(RULES, summary.spent))
    return table


def _add_parts(table: Table, spent: dict[Rule, Spent]) -> None:
    """One row per kind of span; `-` where a rule leaves its seconds out."""
    for kind in SPAN_KINDS:
        cells = []
        for rule in RULES:
            part = words.counted(spent[rule], rule)[kind]
            left_out = part == 0 and spent[rule].get(kind, 0.0) > 0
            cells.append("-" if left_out else f"{part:,.1f} s")
        table.add_row(Text(f"  {kind}", "dim"), *cells)


def phases_table(summary: RunSummary) -> Table:
    """Size, batch sizes and speed by phase."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in ("phase", "epochs", "px", "batch", "per device", "steps", "images/s", "input wait"):
        table.add_column(name, justify="right")
    for row in summary.phases:
        table.add_row(
            str(row.phase_index + 1),
            f"{row.first_epoch}-{row.last_epoch}" if row.last_epoch != row.first_epoch else str(row.first_epoch),
            str(row.image_size),
            text.count(row.global_batch_size),
            f"{row.per_device_batch_size} x {row.accumulate_steps}",
            text.count(row.steps),
            _number(row.images_per_second, ",.1f"),
            text.seconds(row.input_wait_s),
        )
    return table


def epochs_table(summary: RunSummary) -> Table:
    """One row per epoch; hours by DAWNBench's clock when the epoch's weights were frozen."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in ("epoch", "px", "batch", "lr", "loss", "top-1 %", "top-5 %", "hours", "images/s"):
        table.add_column(name, justify="right")
    crossing = summary.crossing()
    for row in summary.epochs:
        crossed = crossing is not None and row.epoch == crossing.epoch
        table.add_row(*epoch_cells(row), style="bold green" if crossed else None)
    return table


def epoch_cells(row: EpochRow) -> tuple[str, ...]:
    """The cells of one epoch."""
    return (
        str(row.epoch),
        str(row.image_size),
        text.count(row.global_batch_size),
        f"{row.lr_last:.4g}",
        _number(row.train_loss, ".4f"),
        words.percent(row.top1),
        words.percent(row.top5),
        f"{elapsed_s(row.spent, 'dawnbench') / 3600:.4f}",
        _number(row.images_per_second, ",.1f"),
    )


def _number(value: float | None, form: str) -> str:
    """A number in a form, `-` for None."""
    return "-" if value is None else format(value, form)


def _notes(summary: RunSummary) -> Iterator[Text]:
    """What a reader must know before quoting a figure."""
    for remark in summary.remarks:
        yield Text(f"{words.plain(summary.name)}: note: {words.plain(remark)}", "yellow")


def comparison_rows(summaries: Sequence[RunSummary]) -> list[tuple[str, list[str]]]:
    """Name and one value per run of what is compared; the page shows the same."""

    def row(name: str, values: Iterable[str]) -> tuple[str, list[str]]:
        return name, list(values)

    crossings = [summary.crossing() for summary in summaries]
    rows = [
        row(
            "outcome",
            ("reached" if crossing else _short_status(s) for s, crossing in zip(summaries, crossings, strict=True)),
        ),
        row("target", (words.target_text(summary) or "none" for summary in summaries)),
        row("epoch of crossing", (str(crossing.epoch) if crossing else "-" for crossing in crossings)),
    ]
    rows += [
        row(f"time, {rule}", (words.clock_text(c.time_to_accuracy_s(rule)) if c else "-" for c in crossings))
        for rule in RULES
    ]
    costs = [summary.cost_to_accuracy_usd() for summary in summaries]
    tops = [(words.best(summary, "top5"), words.best(summary, "top1"), words.final(summary)) for summary in summaries]
    return [
        *rows,
        row("cost to target", ("-" if cost is None else text.money(cost) for cost in costs)),
        row("best top-5 %", (words.percent(top5.top5 if top5 else None) for top5, _, _ in tops)),
        row("best top-1 %", (words.percent(top1.top1 if top1 else None) for _, top1, _ in tops)),
        row("final top-5 %", (words.percent(last.top5 if last else None) for _, _, last in tops)),
        row("epochs done", (f"{len(summary.epochs)} of {summary.total_epochs}" for summary in summaries)),
        row("images/s", (_number(summary.images_per_second, ",.1f") for summary in summaries)),
        row("attempts", (str(len(summary.attempts)) for summary in summaries)),
        row("lost steps", (text.count(words.lost_steps(summary)) for summary in summaries)),
        row("seed", (str(summary.recipe.get("seed", "?")) for summary in summaries)),
        row("recipe", (words.plain(summary.recipe.get("name", "?")) for summary in summaries)),
        row("machine", (words.machine_text(summary) for summary in summaries)),
    ]


def _short_status(summary: RunSummary) -> str:
    """Outcome in a word or two, for a column."""
    if summary.status != "finished":
        return summary.status
    return "not reached" if words.thresholds(summary) else "no target"


def _comparison(summaries: Sequence[RunSummary], width: int) -> Iterator[Table]:
    """As many tables below one another as the width asks for, each with columns of at least 14 characters."""
    at_once = max(1, (width - 20) // 16)
    for first in range(0, len(summaries), at_once):
        group = summaries[first : first + at_once]
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        table.add_column("run", no_wrap=True)
        for summary in group:
            table.add_column(Text(words.plain(summary.name)), justify="right", overflow="fold")
        for name, values in comparison_rows(group):
            table.add_row(name, *map(Text, values))
        yield table
