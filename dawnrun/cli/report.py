"""`dawnrun report`: what runs came to."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dawnrun.errors import ExitCode, UsageError
from dawnrun.record.summary import RunSummary, summarize
from dawnrun.report.words import below_target, plain

if TYPE_CHECKING:
    from dawnrun.report.dawnbench import Author

HELP = """State the time to the target of one or more runs.

Prints a table and writes nothing. With --html or --output it also writes report.json, DAWNBench's two files (if
its target was reached and --author and --email are given) and the page report.html, and prints their paths.

Exit code 6: a run finished below its target, or a DAWNBench entry was refused."""


@click.command(help=HELP)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="What is printed.")
@click.option("--html", is_flag=True, help="Write all files into RUN/report (several runs: the first one's).")
@click.option("--output", metavar="DIR", type=click.Path(path_type=Path), help="Write all files into DIR.")
@click.option("--partial", is_flag=True, help="Write DAWNBench's files of a run below the target too.")
@click.option("--author", metavar="NAME", help="Who submits, for DAWNBench's files.")
@click.option("--email", metavar="E", help="The author's address, for DAWNBench's files.")
@click.option("--code-url", metavar="URL", help="Where the code can be read, for DAWNBench's files.")
def report(
    runs: tuple[Path, ...],
    form: str,
    html: bool,
    output: Path | None,
    partial: bool,
    author: str | None,
    email: str | None,
    code_url: str | None,
) -> int:
    """Print the runs' figures, write the files that were asked for, and return the exit code."""
    folder = output or (runs[0] / "report" if html else None)
    entrant = _author(author, email, code_url, partial=partial, writes=folder is not None)
    summaries = [summarize(run) for run in runs]
    _print(summaries, form)
    refused = folder is not None and _write(summaries, folder, entrant, partial, err=form == "json")
    return ExitCode.BELOW_TARGET if refused or any(map(below_target, summaries)) else ExitCode.OK


def _author(
    name: str | None, email: str | None, code_url: str | None, *, partial: bool, writes: bool
) -> "Author | None":
    """The author if one was named; UsageError where the options do not go together."""
    if name is None and email is None:
        if partial or code_url:
            raise UsageError("--partial and --code-url are for DAWNBench's files: give --author and --email too")
        return None
    if not name or not email:
        raise UsageError("DAWNBench's files need both --author and --email")
    if not writes:
        raise UsageError("--author is for DAWNBench's files: give --output DIR or --html too")
    from dawnrun.report.dawnbench import Author

    return Author(name=name, email=email, code_url=code_url)


def _print(summaries: Sequence[RunSummary], form: str) -> None:
    """The table, or JSON, on standard output."""
    if form == "json":
        from dawnrun.report.document import report_json

        sys.stdout.write(report_json(summaries))
        return
    from dawnrun.cli.console import console
    from dawnrun.report.table import terminal_report

    out = console()
    out.print(terminal_report(summaries, width=out.width))


def _write(summaries: Sequence[RunSummary], folder: Path, author: "Author | None", partial: bool, *, err: bool) -> bool:
    """Write the files and print their paths, on standard error if `err`: JSON on standard output stays JSON."""
    from dawnrun.report.files import write_reports

    written = write_reports(summaries, folder, author=author, partial=partial)
    for note in written.notes:
        click.echo(f"note: {plain(note)}", err=True)
    for warning in written.warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    for path in written.paths:
        click.echo(f"wrote {plain(path.absolute())}", err=err)
    return written.refused
