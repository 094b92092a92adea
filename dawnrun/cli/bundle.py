"""`dawnrun bundle`: one archive of what a stranger needs to check a run."""

from pathlib import Path

import click

from dawnrun.errors import ExitCode, UsageError
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import RunSummary, summarize
from dawnrun.report.bundle import bundle as write_bundle
from dawnrun.report.words import plain
from dawnrun.text import plural, size


@click.command()
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--with-checkpoint", is_flag=True, help="Put the checkpoint that reached the target into it too.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE.tar.gz", help="Default: RUN.tar.gz.")
def bundle(path: Path, with_checkpoint: bool, output: Path | None) -> ExitCode:
    """Put all that a stranger needs to check a run into one archive.

    Event log, recipe, site, seal, report and small files; `dawnrun verify` reads the unpacked folder. The same
    run gives the same bytes.
    """
    run = RunDir.open(path.absolute())
    summary = summarize(run)
    target = (output or run.path.with_name(f"{run.path.name}.tar.gz")).absolute()
    if target.is_dir():
        raise UsageError(f"{target}: a folder; --output names the archive itself")
    if target.exists() and not target.is_file():  # /dev/null would be replaced by the archive
        raise UsageError(f"{target}: not a regular file; --output names the archive itself")
    if summary.status == "running":
        click.echo("warning: the run still goes on: the archive holds it up to now", err=True)
    checkpoint = _checkpoint(run, summary) if with_checkpoint else None
    names = write_bundle(run, target, checkpoint=checkpoint)
    if not (run.report / "report.json").is_file():
        click.echo("note: no report in it: dawnrun report RUN --html writes one", err=True)
    click.echo(f"wrote {plain(target)} ({plural(len(names), 'file')}, {size(target.stat().st_size)})")
    return ExitCode.OK


def _checkpoint(run: RunDir, summary: RunSummary) -> Path:
    """The checkpoint that bears the claim. UsageError if it is not kept."""
    from dawnrun.report.verify import checkpoint_of, validated_row

    row = validated_row(summary)
    folder = None if row is None else checkpoint_of(run, summary, row)
    if folder is None:
        raise UsageError(f"{run.path}: the checkpoint of the accuracy it claims is not kept")
    return folder
