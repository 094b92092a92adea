"""`dawnrun report`: what runs came to."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from dawnrun.cli.inputs import read_inputs
from dawnrun.errors import ExitCode, UsageError
from dawnrun.record.summary import RunSummary
from dawnrun.report.words import below_target, plain

if TYPE_CHECKING:
    from dawnrun.report.claim import Others
    from dawnrun.report.dawnbench import Author

HELP = """State the time to the target of one or more runs.

RUN is a run directory, a DAWNBench entry (ENTRY.tsv [ENTRY.json]) or an MLPerf result log, mixed freely.
Prints a table and writes nothing. With --html or --output it also writes report.json, DAWNBench's two files (if
its target was reached and --author and --email are given) and the page report.html, and prints their paths.
With --audit the arguments are DAWNBench entries, and what is wrong with them is printed, line by line.

Exit code 6: a run finished below its target, or a DAWNBench entry was refused; 7: --audit --strict found a defect."""


@click.command(help=HELP)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="What is printed.")
@click.option("--html", is_flag=True, help="Write all files into RUN/report (several runs: the first one's).")
@click.option("--output", metavar="DIR", type=click.Path(path_type=Path), help="Write all files into DIR.")
@click.option("--against", metavar="RECORD", multiple=True, help="Compare with a published record, as huawei-10m28.")
@click.option("--audit", is_flag=True, help="Judge DAWNBench entries.")
@click.option("--strict", is_flag=True, help="With --audit: exit code 7 on any defect.")
@click.option("--partial", is_flag=True, help="Write DAWNBench's files of a run below the target too.")
@click.option("--author", metavar="NAME", help="Who submits, for DAWNBench's files.")
@click.option("--email", metavar="E", help="The author's address, for DAWNBench's files.")
@click.option("--code-url", metavar="URL", help="Where the code can be read, for DAWNBench's files.")
def report(
    runs: tuple[Path, ...],
    form: Literal["table", "json"],
    html: bool,
    output: Path | None,
    against: tuple[str, ...],
    audit: bool,
    strict: bool,
    partial: bool,
    author: str | None,
    email: str | None,
    code_url: str | None,
) -> int:
    """Print the runs' figures, write the files that were asked for, and return the exit code."""
    if audit:
        others_asked = html or output or against or partial or author or email or code_url
        return _audit(runs, form, strict=strict, alone=not others_asked)
    if strict:
        raise UsageError("--strict is for --audit: give that too")
    summaries, others = read_inputs(runs, against)
    folder = output or (_own_folder(summaries) if html else None)
    entrant = _author(author, email, code_url, partial=partial, writes=folder is not None)
    _print(summaries, others, form)
    refused = folder is not None and _write(summaries, others, folder, entrant, partial, err=form == "json")
    return ExitCode.BELOW_TARGET if refused or any(map(below_target, summaries)) else ExitCode.OK


def _audit(paths: tuple[Path, ...], form: Literal["table", "json"], *, strict: bool, alone: bool) -> ExitCode:
    """`--audit`, which writes no files."""
    if not alone:
        raise UsageError("--audit prints only: it goes with --strict and --format table or json")
    from dawnrun.cli.audit import audit_entries

    return audit_entries(paths, strict=strict, form=form)


def _own_folder(summaries: Sequence[RunSummary]) -> Path:
    """Where --html writes: into the first run."""
    if not summaries:
        raise UsageError("--html writes into the first run's folder, and there is no run here: give --output DIR")
    return Path(summaries[0].path) / "report"


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


def _print(summaries: Sequence[RunSummary], others: "Others", form: str) -> None:
    """The table, or JSON, on standard output."""
    if form == "json":
        from dawnrun.report.document import report_json

        sys.stdout.write(report_json(summaries, others))
        return
    from dawnrun.cli.console import console
    from dawnrun.report.table import terminal_report

    out = console()
    out.print(terminal_report(summaries, others, width=out.width))


def _write(
    summaries: Sequence[RunSummary],
    others: "Others",
    folder: Path,
    author: "Author | None",
    partial: bool,
    *,
    err: bool,
) -> bool:
    """Write the files and print their paths, on standard error if `err`: JSON on standard output stays JSON."""
    from dawnrun.report.files import write_reports

    written = write_reports(summaries, folder, others, author=author, partial=partial)
    for note in written.notes:
        click.echo(f"note: {plain(note)}", err=True)
    for warning in written.warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    for path in written.paths:
        click.echo(f"wrote {plain(path.absolute())}", err=err)
    return written.refused
