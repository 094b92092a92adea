"""`dawnrun validate`: measure the accuracy of a checkpoint on the validation images."""

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dawnrun.cli.attempt import failure_error, say
from dawnrun.cli.console import console, error_console
from dawnrun.cli.machine import find_machine
from dawnrun.cli.train import DATA_ROOT, RUN_SITE, newest_document, site_of
from dawnrun.cli.watch import POLL_S, SILENCE_S, Signals, missing_ranks, waiting_text
from dawnrun.errors import DawnrunError, ExitCode, TrainError, UsageError
from dawnrun.launch.base import Job, JobStatus
from dawnrun.launch.checks import check_data, data_folders
from dawnrun.launch.local import LocalLauncher
from dawnrun.launch.outcome import find_failures, newest_checkpoint
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.rundir import RunDir
from dawnrun.text import count, duration, escaped

IMAGE_SIZE = click.IntRange(min=1, max=4096)
"""Beyond that no network here has use for an image, and a single one asks for gigabytes."""

BLACKLIST = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("path", metavar="RUN|CHECKPOINT", type=click.Path(path_type=Path))
@RUN_SITE
@DATA_ROOT
@click.option("--image-size", type=IMAGE_SIZE, metavar="N", help="Side in pixels, instead of the recipe's.")
@click.option("--rectangular", is_flag=True, help="Keep the aspect ratio: the image size is the short side.")
@click.option("--rectangular-batch", type=IMAGE_SIZE, metavar="N", help="fast.ai's rule, in batches of N (see docs).")
@click.option("--exclude-blacklisted", is_flag=True, help="Leave out the images of --blacklist-file, or the recipe's.")
@click.option("--blacklist-file", type=BLACKLIST, help="ILSVRC2014_clsloc_validation_blacklist.txt, in the 2014 kit.")
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", help="A table, or JSON.")
def validate(
    path: Path,
    site_name: str | None,
    data_root: Path | None,
    image_size: int | None,
    rectangular: bool,
    rectangular_batch: int | None,
    exclude_blacklisted: bool,
    blacklist_file: Path | None,
    form: str,
) -> ExitCode:
    """Measure the accuracy of a run or checkpoint.

    Of a run the newest whole checkpoint is taken. The run directory is read, never changed. All 50,000 images of
    ILSVRC2012 are validated unless the recipe or --exclude-blacklisted leaves some out.
    """
    run, checkpoint = find_checkpoint(path.absolute())
    recipe = newest_document(run, "resolved.yaml", Recipe).value
    if exclude_blacklisted or blacklist_file:
        recipe = _without_blacklisted(recipe, blacklist_file, asked=exclude_blacklisted)
    if rectangular or rectangular_batch:
        recipe = _rectangular(recipe, rectangular_batch, asked=rectangular)
    site = site_of(run, site_name)
    if site.launcher.local is None:
        if site_name:
            raise UsageError(f"site {site.name}: a validation runs on this machine; name a site with launcher: local")
        site = Site(data_root=site.data_root)
    site = find_machine(site, data_root=data_root).site
    check_data(data_folders(recipe, site))
    try:
        code, text = measure(checkpoint, recipe, site, image_size=image_size)
    except DawnrunError as error:
        other = None if path.absolute() == checkpoint else _instead(run, checkpoint, error)
        if other is None:
            raise
        why = str(error).strip().splitlines()[0] if checkpoint.is_dir() else f"{checkpoint}: gone since"
        click.echo(f"{escaped(why)}; taking the next one", err=True)
        code, text = measure(other, recipe, site, image_size=image_size)
    if code is not ExitCode.OK:
        return code
    result = json.loads(text)
    result["epoch"] += 1  # reports count from 1, events from 0
    if form == "json":
        click.echo(json.dumps(result))
    else:
        print_result(result)
    return ExitCode.OK


def _without_blacklisted(recipe: Recipe, path: Path | None, *, asked: bool) -> Recipe:
    """The recipe with this list of images left out; without one it has to name its own."""
    if not asked or (path is None and recipe.validation.blacklist_file is None):
        raise UsageError("--exclude-blacklisted and --blacklist-file need each other, unless the recipe names a list")
    own = recipe.validation.blacklist_file if path is None else str(path.absolute())
    return recipe.model_copy(update={"validation": recipe.validation.model_copy(update={"blacklist_file": own})})


def _rectangular(recipe: Recipe, batch: int | None, *, asked: bool) -> Recipe:
    """The recipe with every validation image in its own aspect ratio, or in that of its batch."""
    if not asked:
        raise UsageError("--rectangular-batch goes with --rectangular")
    update = {"rectangular": True, "rectangular_batch": batch}
    phases = tuple(
        phase.model_copy(update={"validation": phase.validation.model_copy(update=update)}) for phase in recipe.phases
    )
    return recipe.model_copy(update={"phases": phases})


def measure(checkpoint: Path, recipe: Recipe, site: Site, *, image_size: int | None = None) -> tuple[ExitCode, str]:
    """Validate a checkpoint on this machine, in a scratch folder; the counts as JSON text, empty unless the code is OK."""
    error_console().print(
        f"validating {escaped(checkpoint)} on {site.device}, processes: {site.world_size}", soft_wrap=True
    )
    with tempfile.TemporaryDirectory(prefix="dawnrun-validate-") as scratch:
        # A run directory of its own, so that the one that is read gets no attempt that trained nothing.
        own, output = RunDir(Path(scratch)), Path(scratch) / "result.json"
        own.attempt_dir(1).mkdir(parents=True)
        own.resolved_yaml.write_text(resolved_text(recipe), encoding="utf-8")
        own.site_yaml.write_text(resolved_text(site), encoding="utf-8")
        words = command(own, checkpoint, output, image_size)
        code = run_job(
            Job(folder=own.attempt_dir(1), logs=own.logs / "1", site=site.without_evaluators(), command=words)
        )
        return code, output.read_text(encoding="utf-8") if code is ExitCode.OK else ""


def find_checkpoint(path: Path) -> tuple[RunDir, Path]:
    """The run and the checkpoint that a path means: a run directory, or one inside it. Raises UsageError.

    The snapshot of a crossing is one that lacks what a resume needs.
    """
    if path.parent.name in ("checkpoints", "snapshots") and (path.parent.parent / "resolved.yaml").is_file():
        if not path.is_dir():
            raise UsageError(f"{path}: no such checkpoint")
        return RunDir.open(path.parent.parent), path
    run = RunDir.open(path)
    checkpoint = newest_checkpoint(run.checkpoints)
    if checkpoint is None:
        raise UsageError(f"{run.checkpoints}: no complete checkpoint in it yet")
    return run, checkpoint


def _instead(run: RunDir, checkpoint: Path, error: DawnrunError) -> Path | None:
    """The newest other checkpoint, where this one is damaged or was removed meanwhile by a run that goes on."""
    broken = isinstance(error, UsageError) and ("damaged" in str(error) or "not a checkpoint" in str(error))
    return newest_checkpoint(run.checkpoints, but=checkpoint) if broken or not checkpoint.is_dir() else None


def command(run: RunDir, checkpoint: Path, output: Path, image_size: int | None) -> tuple[str, ...]:
    """What follows `python`."""
    size = () if image_size is None else ("--image-size", str(image_size))
    words = ("-m", "dawnrun.train", str(run.path), "--attempt", "1", "--validate", str(checkpoint))
    return (*words, "--output", str(output), *size)


def run_job(job: Job) -> ExitCode:
    """Start the job and wait for it, passing on signals; raises what made it fail."""
    launcher = LocalLauncher()
    job.logs.mkdir(parents=True)
    started, named_s = time.monotonic(), 0.0
    with Signals() as signals:
        try:
            launcher.submit(launcher.plan(job))
            while launcher.status() is JobStatus.RUNNING:
                if signals.take():
                    launcher.cancel("now")
                quiet_s = time.monotonic() - started
                if quiet_s - named_s >= SILENCE_S:
                    named_s, missing = quiet_s, missing_ranks(job)
                    what = waiting_text(missing, job.site.world_size) if missing else "validating"
                    # Not on standard output: that may be JSON.
                    click.echo(f"{duration(quiet_s)}: {what}", err=True)
                time.sleep(POLL_S)
        finally:
            launcher.close()
    if signals.first is not None:
        say("interrupted; nothing was changed")
        return ExitCode.INTERRUPTED
    if launcher.status() is not JobStatus.SUCCEEDED:
        failures = find_failures(job.folder, job.logs)
        raise failure_error(failures, job.logs, "") if failures else TrainError("the validation was lost")
    return ExitCode.OK


def print_result(result: Mapping[str, Any]) -> None:
    """A table of counts and percentages."""
    from rich.table import Table

    table = Table(show_edge=False, box=None, show_header=False)
    images = result["num_images"]
    size, resize = result["image_size"], result["resize_px"]
    view = f"{size} px centre crop of the image at {resize} px"
    if result.get("rectangular"):
        batch = result.get("rectangular_batch")
        view = f"short side {size} px, aspect ratio {f'of batches of {batch}' if batch else 'kept'}"
    rows = {
        "step, epoch": f"{result['step']}, {result['epoch']}",
        "images": count(images),
        "view": view + (", averaged with its mirror image" if result.get("flip_average") else ""),
        "top-1": _share(result["top1_correct"], images),
        "top-5": _share(result["top5_correct"], images),
        "loss": "not finite" if result["loss"] is None else f"{result['loss']:.4f}",
        "time": f"{result['eval_s']:.1f} s, processes: {result['num_processes']}",
    }
    if not result["valid"]:
        rows["result"] = "not valid: outputs are not finite"
    elif result["num_classes"] <= 5:
        rows["remark"] = f"top-5 means nothing with {result['num_classes']} classes"
    for name, value in rows.items():
        table.add_row(name, value)
    console().print(table)


def _share(correct: int, images: int) -> str:
    return f"{100 * correct / images:.2f} % ({correct:,} of {images:,})"
