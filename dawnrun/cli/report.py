"""`dawnrun report`: what runs came to."""

from pathlib import Path

import click

from dawnrun.cli.formats import FORMATS, Asked, give, own_folder
from dawnrun.cli.inputs import read_inputs
from dawnrun.errors import ExitCode, UsageError
from dawnrun.report.words import below_target

HELP = """State the time to the target of one or more runs.

RUN is a run directory, a DAWNBench entry (ENTRY.tsv [ENTRY.json]) or an MLPerf result log, mixed freely.
Prints a table and writes nothing. With --html or --output it also writes report.json, DAWNBench's two files (if
its target was reached and --author and --email are given) and the page report.html, and prints their paths.
--format csv, markdown, html or mlperf prints that form, or writes it alone with --output; dawnbench and tensorboard are files.
With --audit the arguments are DAWNBench entries, and what is wrong with them is printed, line by line.

Exit code 6: a run finished below its target, or a DAWNBench entry was refused; 7: --audit --strict found a defect."""


@click.command(help=HELP)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", help="The form of the report.")
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
    form: str,
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
    folder = output or (own_folder(summaries) if html else None)
    asked = Asked(form=form, folder=folder, author=author, email=email, code_url=code_url, partial=partial)
    refused = give(asked, summaries, others)
    return ExitCode.BELOW_TARGET if refused or any(map(below_target, summaries)) else ExitCode.OK


def _audit(paths: tuple[Path, ...], form: str, *, strict: bool, alone: bool) -> ExitCode:
    """`--audit`, which writes no files."""
    if not alone or form not in ("table", "json"):
        raise UsageError("--audit prints only: it goes with --strict and --format table or json")
    from dawnrun.cli.audit import audit_entries

    return audit_entries(paths, strict=strict, form="json" if form == "json" else "table")
