"""The forms of a report: what `dawnrun report --format` prints, and the files it writes."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dawnrun.errors import UsageError
from dawnrun.record.summary import RunSummary
from dawnrun.report.claim import Others
from dawnrun.report.words import plain

if TYPE_CHECKING:
    from dawnrun.report.dawnbench import Author
    from dawnrun.report.files import Written

FORMATS = ("table", "json", "csv", "markdown", "html", "dawnbench", "mlperf", "tensorboard")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The options: `folder` is where files go, None to print alone; `author` and so on are for DAWNBench and MLPerf."""

    form: str
    folder: Path | None
    author: str | None
    email: str | None
    code_url: str | None
    partial: bool

    def entrant(self) -> "Author | None":
        """Who submits to DAWNBench, None if nobody was named; UsageError where the options do not go together."""
        if self.author is None and self.email is None:
            if self.partial or self.code_url:
                raise UsageError("--partial and --code-url are for DAWNBench's files: give --author and --email too")
            return None
        if not self.author or not self.email:
            raise UsageError("DAWNBench's files need both --author and --email")
        if self.folder is None:
            raise UsageError("--author is for DAWNBench's files: give --output DIR or --html too")
        from dawnrun.report.dawnbench import entrant

        return entrant(self.author, self.email, self.code_url)


def give(asked: Asked, summaries: Sequence[RunSummary], others: Others) -> bool:
    """Print or write the report in the form that was asked for; whether a DAWNBench entry was refused."""
    if asked.form in ("table", "json"):
        return _all(asked, summaries, others)
    if asked.form == "dawnbench":
        return _dawnbench(asked, summaries)
    if asked.form == "mlperf":
        _mlperf(asked, summaries)
    elif asked.form == "tensorboard":
        _tensorboard(asked, summaries)
    else:
        _text(asked, *_TEXTS[asked.form](summaries, others))
    return False


def own_folder(summaries: Sequence[RunSummary]) -> Path:
    """Where files go that are given no folder: into the first run."""
    if not summaries:
        raise UsageError("files go into the first run's folder, and there is no run here: give --output DIR")
    return Path(summaries[0].path) / "report"


def _all(asked: Asked, summaries: Sequence[RunSummary], others: Others) -> bool:
    """The table, or JSON, on standard output; and every usual file if a folder was named."""
    entrant = asked.entrant()
    if asked.form == "json":
        from dawnrun.report.document import report_json

        sys.stdout.write(report_json(summaries, others))
    else:
        from dawnrun.cli.console import console
        from dawnrun.report.table import terminal_report

        out = console()
        out.print(terminal_report(summaries, others, width=out.width))
    if asked.folder is None:
        return False
    from dawnrun.report.files import write_reports

    written = write_reports(summaries, asked.folder, others, author=entrant, partial=asked.partial)
    # JSON on standard output stays JSON.
    _tell(written, err=asked.form == "json")
    return written.refused


def _tell(written: "Written", *, err: bool = False) -> None:
    for note in written.notes:
        click.echo(f"note: {plain(note)}", err=True)
    for warning in written.warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    for path in written.paths:
        click.echo(f"wrote {plain(path.absolute())}", err=err)


def _text(asked: Asked, name: str, content: str, warnings: Sequence[str] = ()) -> None:
    """One text: printed, or written as `name` into the folder."""
    from dawnrun.report.files import write_text

    for warning in warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    if asked.folder is None:
        sys.stdout.write(content)
    else:
        click.echo(f"wrote {plain(write_text(asked.folder / name, content).absolute())}")


def _csv(summaries: Sequence[RunSummary], others: Others) -> tuple[str, str]:
    from dawnrun.report.tabular import csv_text

    return "report.csv", csv_text(summaries, others)


def _markdown(summaries: Sequence[RunSummary], others: Others) -> tuple[str, str]:
    from dawnrun.report.tabular import markdown_text

    return "report.md", markdown_text(summaries, others)


def _html(summaries: Sequence[RunSummary], others: Others) -> tuple[str, str, Sequence[str]]:
    from dawnrun.report.html import html_page

    return ("report.html", *html_page(summaries, others))


_TEXTS: dict[str, Callable[[Sequence[RunSummary], Others], tuple[str, str] | tuple[str, str, Sequence[str]]]] = {
    "csv": _csv,
    "markdown": _markdown,
    "html": _html,
}


def _dawnbench(asked: Asked, summaries: Sequence[RunSummary]) -> bool:
    """The two files of each run's entry alone."""
    from dawnrun.report.dawnbench import entrant
    from dawnrun.report.files import write_entries

    if not asked.author or not asked.email:
        raise UsageError("DAWNBench's files need both --author and --email")
    author = entrant(asked.author, asked.email, asked.code_url)
    written = write_entries(summaries, asked.folder or own_folder(summaries), author, partial=asked.partial)
    _tell(written)
    return written.refused


def _mlperf(asked: Asked, summaries: Sequence[RunSummary]) -> None:
    """One log a run, and on standard error which of MLPerf's rules the run does not keep."""
    from dawnrun.report.files import places, write_text
    from dawnrun.report.mlperf import RULESET, mlperf_log

    if not summaries:
        raise UsageError("an MLPerf log is about a run, and there is none here")
    if asked.folder is None and len(summaries) != 1:
        raise UsageError(f"an MLPerf log is about one run, and there are {len(summaries)}: give --output DIR")
    logs = [mlperf_log(summary, org=asked.author) for summary in summaries]
    for summary, log in zip(summaries, logs, strict=True):
        for problem in log.problems:
            click.echo(f"note: {plain(summary.path)}: not as ruleset {RULESET} has it: {plain(problem)}", err=True)
    if asked.folder is None:
        sys.stdout.write(logs[0].text)
        return
    for log, place in zip(logs, places(summaries, asked.folder), strict=True):
        click.echo(f"wrote {plain(write_text(place / 'mlperf.log', log.text).absolute())}")


def _tensorboard(asked: Asked, summaries: Sequence[RunSummary]) -> None:
    """One event file a run, in a folder of its own: TensorBoard names curves by folders."""
    from dawnrun.report.files import places, write_bytes
    from dawnrun.report.tensorboard import file_name, tensorboard_bytes

    folder = (asked.folder or own_folder(summaries)) / "tensorboard"
    for summary, place in zip(summaries, places(summaries, folder), strict=True):
        path = write_bytes(place / file_name(summary), tensorboard_bytes(summary))
        click.echo(f"wrote {plain(path.absolute())}")
