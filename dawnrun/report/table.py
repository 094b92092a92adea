"""The report on a terminal: one run in full, several side by side."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dawnrun.clock import RULES
from dawnrun.record.summary import RunSummary
from dawnrun.report import against, rows, seeds, steps, words
from dawnrun.report.claim import NO_OTHERS, Others, remarks


def terminal_report(summaries: Sequence[RunSummary], others: Others = NO_OTHERS, *, width: int = 80) -> RenderableType:
    """Everything the terminal shows: one run with its epochs, or a comparison of several and what is to be remarked."""
    if len(summaries) == 1 and not others.claims:
        return Group(*_single(summaries[0], others))
    return Group(
        *(alarm for summary in summaries for alarm in _alarms(summary)),
        *_comparison(summaries, others, width),
        *(part for found in seeds.group(summaries) for part in _seeds(found)),
        *(part for summary in summaries for part in _against(summary, others)),
        *(note for summary in summaries for note in _notes(summary)),
        *(Text(f"{words.plain(claim.name)}: {told}") for claim in others.claims for told in remarks(claim)),
    )


def _single(summary: RunSummary, others: Others) -> Iterator[RenderableType]:
    """The parts of one run's report; the outcome comes last too, where a long table has not scrolled it away."""
    yield _headline(summary)
    yield from _alarms(summary)
    yield _facts(summary)
    yield _clocks(summary)
    yield _grid(rows.PHASE_COLUMNS, map(rows.phase_cells, summary.phases))
    timed = steps.step_rows(summary)
    if timed:
        yield _grid(steps.STEP_COLUMNS, iter(timed))
    crossing = summary.crossing()
    bold = None if crossing is None else str(crossing.epoch)
    yield _grid(rows.EPOCH_COLUMNS, map(rows.epoch_cells, summary.epochs), bold=bold)
    yield from _against(summary, others)
    yield from _notes(summary)
    yield _headline(summary)


def _headline(summary: RunSummary) -> Text:
    """The run's name and its outcome."""
    colour = "bold yellow" if summary.crossing() is None else "bold green"
    return Text.assemble((f"{words.plain(summary.name)}: ", "bold"), (words.outcome(summary), colour))


def _alarms(summary: RunSummary) -> Iterator[Text]:
    """What puts the record itself in doubt, before any figure of it."""
    for fault in summary.seal_faults:
        yield Text(f"{rows.run_name(summary)}: {words.plain(fault)}", "bold red")


def _facts(summary: RunSummary) -> Table:
    """Name and value of what is said once a run."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.facts(summary):
        table.add_row(name, Text(value))
    return table


def _clocks(summary: RunSummary) -> Table:
    """The four clocks with their parts: until the target where it was reached, and the whole run."""
    table = _columns(("clock", *RULES))
    table.columns[0].justify = "left"
    target, whole = rows.target_clock(summary), rows.whole_clock(summary)
    for number, cells in enumerate(target):
        table.add_row(*cells, style="bold" if number == 0 else None)
    table.add_section()
    for cells in whole[:1] if summary.crossing() else whole:
        table.add_row(*cells)
    return table


def _columns(names: rows.Row) -> Table:
    """An empty table of figures."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    for name in names:
        table.add_column(name, justify="right")
    return table


def _grid(names: rows.Row, lines: Iterator[rows.Row], *, bold: str | None = None) -> Table:
    """A table of figures; the line that starts with `bold` stands out."""
    table = _columns(names)
    for cells in lines:
        table.add_row(*cells, style="bold green" if cells[0] == bold else None)
    return table


def _notes(summary: RunSummary) -> Iterator[Text]:
    """What a reader must know before quoting a figure."""
    for remark in summary.remarks:
        yield Text(f"{rows.run_name(summary)}: note: {words.plain(remark)}", "yellow")


def _comparison(summaries: Sequence[RunSummary], others: Others, width: int) -> Iterator[Table]:
    """As many tables below one another as the width asks for, each with columns of at least 14 characters."""
    names = [*map(rows.run_name, summaries), *(words.plain(claim.name) for claim in others.claims)]
    lines = rows.comparison(summaries, others.claims)
    at_once = max(1, (width - 20) // 16)
    for first in range(0, len(names), at_once):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        table.add_column("run", no_wrap=True)
        for name in names[first : first + at_once]:
            table.add_column(Text(name), justify="right", overflow="fold")
        for label, *cells in lines:
            table.add_row(label, *map(Text, cells[first : first + at_once]))
        yield table


def _against(summary: RunSummary, others: Others) -> Iterator[RenderableType]:
    """The run beside each published record."""
    for record in others.records:
        found = against.against(summary, record)
        yield Text(f"{rows.run_name(summary)} {against.headline(found)}", "bold")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        for name in against.columns(summary, found):
            table.add_column(Text(name), overflow="fold")
        for cells in found.beside:
            table.add_row(*map(Text, cells))
        yield table
        for remark in against.remarks(found):
            yield Text(f"{rows.run_name(summary)}: note: {remark}", "yellow")


def _seeds(found: seeds.Group) -> Iterator[RenderableType]:
    """Runs of one recipe, each with its time, then what they amount to."""
    yield Text(seeds.headline(found), "bold")
    yield _grid(seeds.RUN_COLUMNS, map(seeds.run_cells, found.runs))
    yield _grid(seeds.FIGURE_COLUMNS, iter(seeds.figure_cells(found)))
    if found.num_reached < len(found.runs):
        yield Text(
            "note: the figures are those of the runs that reached the target; the others took longer or never would"
        )
