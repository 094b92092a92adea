"""`dawnrun verify`: what of a run's claim can be confirmed here, what cannot, and what contradicts."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dawnrun.cli.machine import find_machine
from dawnrun.cli.train import DATA_ROOT, RUN_SITE, with_data_root
from dawnrun.errors import DawnrunError, ExitCode, ReportError, VersionError
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.events import read_file
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import RunSummary, summarize
from dawnrun.report import verify as checks
from dawnrun.report.verify import Finding
from dawnrun.report.words import plain
from dawnrun.text import plural

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {"confirmed": "green", "not checked": "yellow", "contradicts": "bold red"}
REBUILD_LIMIT_S = 300


@click.command()
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@RUN_SITE
@DATA_ROOT
@click.option("--quick", is_flag=True, help="Start no process: leave the initial weights and the accuracy unchecked.")
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", help="A table, or JSON.")
def verify(path: Path, site_name: str | None, data_root: Path | None, quick: bool, form: str) -> ExitCode:
    """Check a run's claim.

    The claim is computed anew from the event log alone; then the report, the seal, the recipe, the code's commit, the data
    set, the initial weights and the accuracy at the crossing are checked as far as that can be done here.

    Exit code 0: nothing contradicts, with a warning where something could not be checked; 7: something contradicts.
    """
    run = RunDir.open(path.absolute())
    found = []
    for finding in _findings(run, site_name, data_root, quick=quick):
        found.append(finding)
        if form == "table":
            _print(finding)
    if form == "json":
        click.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    return _conclude(found)


def _findings(run: RunDir, site_name: str | None, data_root: Path | None, *, quick: bool) -> Iterator[Finding]:
    """Every check, the cheap ones first."""
    try:
        summary, starts = summarize(run), _starts(run)
    except VersionError:
        raise
    except ReportError as error:
        yield Finding(name="claim from the log", verdict="contradicts", text=str(error))
        yield checks.check_sealed(run)
        return
    yield checks.check_claim(summary)
    yield from checks.check_reports(run, summary)
    yield checks.check_sealed(run)
    if not starts:
        yield Finding(name="the rest", verdict="not checked", text="the log does not say that training started")
        return
    yield from checks.check_recipe(run, summary, starts)
    yield checks.check_code(starts[0])
    recipe = checks.recipe_of(summary.recipe)
    if recipe is None:
        yield Finding(name="data, weights, accuracy", verdict="not checked", text="the recipe is another version's")
        return
    yield from _with_processes(run, summary, starts, recipe, site_name, data_root, quick=quick)


def _with_processes(
    run: RunDir,
    summary: RunSummary,
    starts: Sequence[Mapping[str, Any]],
    recipe: Recipe,
    site_name: str | None,
    data_root: Path | None,
    *,
    quick: bool,
) -> Iterator[Finding]:
    """Data, then what takes torch."""
    try:
        if site_name:
            site = with_data_root(read(site_name, Site), Path(str(summary.site.get("data_root", "data"))))
        else:
            site = Site.model_validate(summary.site)
        site = find_machine(site, data_root=data_root).site
    except (DawnrunError, ValueError) as error:
        why = " ".join(str(error).split())
        yield Finding(
            name="data, accuracy", verdict="not checked", text=f"the site does not fit here: {why}; give --site"
        )
        site = None
    data = [] if site is None else list(checks.check_data(recipe, site.read_root, starts[-1]))
    yield from data
    if quick:
        yield Finding(name="initial weights, accuracy", verdict="not checked", text="left out by --quick")
        return
    yield checks.judge_weights(_rebuild(recipe, int(starts[0].get("num_classes", 0))), starts[0])
    if site is not None:
        validation = next((finding for finding in data if finding.name == "data validation/val"), None)
        yield _accuracy(run, summary, starts[-1], recipe, site, validation)


def _accuracy(
    run: RunDir,
    summary: RunSummary,
    started: Mapping[str, Any],
    recipe: Recipe,
    site: Site,
    validation: Finding | None,
) -> Finding:
    """The checkpoint that bears the claim, validated again."""
    row = checks.validated_row(summary)
    if row is None:
        return Finding(name="accuracy", verdict="not checked", text="nothing was validated")
    name = f"accuracy of epoch {row.epoch}"
    checkpoint = checks.checkpoint_of(run, summary, row)
    if checkpoint is None:
        return Finding(name=name, verdict="not checked", text=f"no checkpoint of step {row.step} is here")
    if validation is None or validation.verdict != "confirmed":
        return Finding(name=name, verdict="not checked", text="the validation images of the run are not here")
    from dawnrun.cli.validate import measure

    try:
        code, text = measure(checkpoint, recipe, site)
    except DawnrunError as error:
        return Finding(name=name, verdict="contradicts" if "damaged" in str(error) else "not checked", text=str(error))
    if code is not ExitCode.OK:
        return Finding(name=name, verdict="not checked", text="the validation was stopped")
    return checks.judge_counts(json.loads(text), row, started, site.device)


def _starts(run: RunDir) -> list[Mapping[str, Any]]:
    """`run.started` of every attempt that has one."""
    logs = [run.events_dir(attempt) / "trainer.jsonl" for attempt in run.attempts()]
    found = (
        next((event for event in read_file(log) if event.kind == "run.started"), None) for log in logs if log.is_file()
    )
    return [event.data for event in found if event is not None]


def _rebuild(recipe: Recipe, num_classes: int) -> str | None:
    """Hash of the initial weights, built by a process that may import torch; None if it fails."""
    with tempfile.TemporaryDirectory(prefix="dawnrun-verify-") as scratch:
        path = Path(scratch) / "resolved.yaml"
        path.write_text(resolved_text(recipe), encoding="utf-8")
        words = [sys.executable, "-m", "dawnrun.train.rebuild", str(path), "--num-classes", str(num_classes)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=REBUILD_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
    return done.stdout.strip() if done.returncode == 0 else None


def _print(finding: Finding) -> None:
    """One finding, as soon as it is there: the next may take minutes."""
    from dawnrun.cli.console import console

    console().print(_line(finding), soft_wrap=True)


def _line(finding: Finding) -> "Text":
    from rich.text import Text

    line = Text(f"{finding.verdict:<12}", _STYLES[finding.verdict])
    return line.append(f"{finding.name}: ", "bold").append(plain(finding.text), "not bold default")


def _conclude(found: Sequence[Finding]) -> ExitCode:
    """The count of each verdict, on standard error, and the exit code."""
    number = {verdict: sum(finding.verdict == verdict for finding in found) for verdict in _STYLES}
    told = f"{plural(number['confirmed'], 'check')} confirmed, {number['not checked']} could not be made"
    if number["contradicts"]:
        click.echo(f"contradicted: {told}, {plural(number['contradicts'], 'contradiction')}", err=True)
        return ExitCode.CONTRADICTED
    prefix = "warning: incomplete: " if number["not checked"] else "verified: "
    click.echo(f"{prefix}{told}; nothing contradicts", err=True)
    return ExitCode.OK
