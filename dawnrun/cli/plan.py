"""`dawnrun plan`: what a recipe amounts to on a site, before anything is started."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from dawnrun.cli.console import console
from dawnrun.cli.variants import RESCALE, SHRINK, changed
from dawnrun.errors import DataError
from dawnrun.recipe.dump import recipe_sha256, to_mapping
from dawnrun.recipe.reader import read
from dawnrun.recipe.schedule import EpochPlan, Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.recipe.site import resolve_site
from dawnrun.text import escaped, plural

if TYPE_CHECKING:
    from rich.table import Table

IMAGENET_TRAIN, IMAGENET_VAL = 1_281_167, 50_000
"""Images of ILSVRC2012: a recipe that plans with the one number is validated on the other."""


RECIPES = ("recipe.yaml", "resolved.yaml")
"""Recipes of a run; its site lies beside them."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", required=True, metavar="RECIPE", help="A recipe file, or the name of a shipped one.")
@click.option("--site", metavar="SITE", help="A site file, or the name of a shipped one; default: this machine.")
@click.option("--set", multiple=True, metavar="KEY=VALUE", help="Change a value, as in phases[0].epochs=3.")
@click.option(
    "--data-root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the data sets, instead of the site's.",
)
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="Processes on each machine, whatever the site says."
)
@SHRINK
@RESCALE
@click.option(
    "--num-val-images",
    type=click.IntRange(min=1),
    metavar="N",
    help="Validation images; default: counted, or ImageNet's 50,000 for a recipe with its number of images.",
)
@click.option(
    "--format", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True, help="Output."
)
def plan(
    config: str,
    site: str | None,
    set: tuple[str, ...],
    data_root: Path | None,
    processes: int | None,
    shrink: str | None,
    rescale: bool,
    num_val_images: int | None,
    format: str,
) -> None:
    """Show what a recipe amounts to: image sizes, batch sizes, steps, images and rates of every epoch.

    The resolved.yaml of a run is planned on the site of that run, unless --site names another.
    """
    recipe = read(config, Recipe, set)
    place = read(_site_of_run(config) if site is None else site, Site).value
    if data_root is not None:
        place = place.model_copy(update={"data_root": data_root})
    if processes is not None:
        place = place.model_copy(update={"processes_per_node": processes})
    # Devices are looked for at the start of a run, by torch; a plan without --processes takes one each.
    place = resolve_site(place, devices=1)
    recipe = changed(recipe, place.world_size, shrink=shrink, rescale=rescale)
    num_train = recipe.value.input.num_train_images
    if num_train is None:
        num_train = _counted(recipe.value, place, "train")
        num_val_images = num_val_images or _counted(recipe.value, place, "val")
    elif num_train == IMAGENET_TRAIN:
        num_val_images = num_val_images or IMAGENET_VAL
    schedule = Schedule.compile(recipe.value, num_train, place.world_size, document=recipe)
    if format == "json":
        click.echo(json.dumps(plan_mapping(schedule, place, num_val_images), indent=2, allow_nan=False))
    elif format == "csv":
        click.echo(plan_csv(schedule, place), nl=False)
    else:
        _print(schedule, place, num_val_images)


def _site_of_run(config: str) -> Path | None:
    """The site beside a recipe that lies in a run directory, or in the folder of an attempt."""
    path = Path(config)
    return path.with_name("site.yaml") if path.name in RECIPES and path.with_name("site.yaml").is_file() else None


def _counted(recipe: Recipe, site: Site, split: Literal["train", "val"]) -> int:
    """Images of a split of the first phase's data set. Raises DataError if the data are not there, or not dawnrun's to read."""
    if recipe.input.import_ is not None:
        raise DataError(
            f"{recipe.input.import_}: images of your own are not counted to plan; say how many training images there are:"
            " --set input.num_train_images=N"
        )
    folder = (site.read_root / recipe.input.datasets[recipe.phases[0].dataset]).absolute()
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder, so its training images cannot be counted\n"
            f"    put the data there, name its place with --data-root, or plan with a number: --set input.num_train_images={IMAGENET_TRAIN}"
        )
    from dawnrun.dataset.index import build_index

    return len(build_index(folder, split))


def validation_batches(num_images: int, batch_size: int, world_size: int) -> int:
    """Forward passes of one validation over all processes; process r has images r, r + W, r + 2W, ..."""
    shares = [len(range(rank, num_images, world_size)) for rank in range(world_size)]
    return sum(-(-share // batch_size) for share in shares)


def plan_mapping(schedule: Schedule, site: Site, num_val_images: int | None) -> dict[str, Any]:
    """The whole plan as plain JSON values; epochs count from 1. Equal recipes give equal plans, wherever they lie."""
    recipe = schedule.recipe
    batch_size = recipe.validation.batch_size
    epochs = [
        {
            **asdict(epoch),
            "epoch": epoch.epoch + 1,
            "per_node_batch_size": epoch.global_batch_size // site.nodes,
            "validation": recipe.phases[epoch.phase_index].validation.resolved(epoch.image_size).model_dump()
            if epoch.validates
            else None,
        }
        for epoch in schedule.epochs()
    ]
    validation = None
    if num_val_images is not None:
        batches = validation_batches(num_val_images, batch_size, schedule.world_size)
        validation = {"num_images": num_val_images, "batch_size": batch_size, "batches": batches, "left_out": 0}
    return {
        "schema_version": 1,
        "name": recipe.name,
        "provenance": to_mapping(recipe.provenance),
        "recipe_sha256": recipe_sha256(recipe),
        "site": site.name,
        "nodes": site.nodes,
        "processes_per_node": site.processes_per_node,
        "world_size": schedule.world_size,
        "num_train_images": schedule.num_train_images,
        "total_epochs": schedule.total_epochs,
        "total_steps": schedule.total_steps,
        "total_images": sum(epoch.images for epoch in schedule.epochs()),
        "validation": validation,
        "warnings": list(_warnings(recipe)),
        "epochs": epochs,
    }


def plan_csv(schedule: Schedule, site: Site) -> str:
    """A row for each epoch, with every figure of the JSON form but the view of the validation images."""
    text = io.StringIO()
    names = [field.name for field in fields(EpochPlan)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "per_node_batch_size"])
    for epoch in schedule.epochs():
        values = {**asdict(epoch), "epoch": epoch.epoch + 1}
        writer.writerow([*(values[name] for name in names), epoch.global_batch_size // site.nodes])
    return text.getvalue()


def _print(schedule: Schedule, site: Site, num_val_images: int | None) -> None:
    """The plan as text and a table."""
    recipe, out = schedule.recipe, console()
    for line in _head(recipe, site, schedule):
        out.print(escaped(line), soft_wrap=True)
    out.print()
    out.print(_epochs(schedule, site))
    out.print()
    for line in (*_totals(schedule, num_val_images), *(f"warning: {text}" for text in _warnings(recipe))):
        out.print(escaped(line), soft_wrap=True)


def _head(recipe: Recipe, site: Site, schedule: Schedule) -> Iterator[str]:
    """What is planned, where it comes from, on what."""
    source = recipe.provenance
    told = [text for text in (source.published, source.source) if text]
    yield f"{recipe.name}: provenance {source.confidence}{''.join(f'; {text}' for text in told)}"
    machines = f"{plural(site.nodes, 'machine')} x {site.processes_per_node} = {schedule.world_size}"
    yield f"site {site.name}: {machines} process{'' if schedule.world_size == 1 else 'es'}"


def _warnings(recipe: Recipe) -> Iterator[str]:
    """What a reader must know before anyone pays."""
    source = recipe.provenance
    if source.changed:
        yield f"this is not the recipe as it is written: {source.changed}"
    if source.confidence in ("partial", "guessed"):
        much = "some of its" if source.confidence == "partial" else "most of its decisive"
        yield f"{source.confidence}: {much} settings were never published; the recipe marks each choice"


def _totals(schedule: Schedule, num_val_images: int | None) -> Iterator[str]:
    """Sums over the run, and what validation sees."""
    images = sum(epoch.images for epoch in schedule.epochs())
    epochs = plural(schedule.total_epochs, "epoch")
    yield "*: validated; images +/-: trained on twice or left out; rates: first..last step"
    yield f"{epochs}, {plural(schedule.total_steps, 'step')}, {plural(images, 'training image')}"
    batch_size, times = schedule.recipe.validation.batch_size, sum(epoch.validates for epoch in schedule.epochs())
    if num_val_images is None:
        yield f"validated {plural(times, 'time')}; images not counted (--num-val-images N)"
        return
    batches = validation_batches(num_val_images, batch_size, schedule.world_size)
    yield (
        f"validated {plural(times, 'time')}: {plural(num_val_images, 'image')} in {batches:,} "
        f"batch{'' if batches == 1 else 'es'} of at most {batch_size:,}, 0 left out"
    )


EPOCH_COLUMNS = (
    "epoch",
    "px",
    "data",
    "batch by device\n/machine/all",
    "acc.",
    "steps",
    "images\n+/-",
    "lr",
    "momentum",
)


def _epochs(schedule: Schedule, site: Site) -> "Table":
    """A row for each epoch: batch sizes by device, machine and all, images trained on twice (+) or not at all (-), rates."""
    table = _table(EPOCH_COLUMNS, left=("data", "lr", "momentum"))
    for epoch in schedule.epochs():
        sizes = (epoch.per_device_batch_size, epoch.global_batch_size // site.nodes, epoch.global_batch_size)
        table.add_row(
            str(epoch.epoch + 1) + ("*" if epoch.validates else " "),
            str(epoch.image_size),
            epoch.dataset,
            "/".join(map(str, sizes)),
            str(epoch.accumulate_steps),
            str(epoch.steps),
            f"{epoch.repeated_images - epoch.dropped_images:+d}",
            _first_to_last(epoch.lr_first, epoch.lr_last),
            _first_to_last(epoch.momentum_first, epoch.momentum_last),
        )
    return table


def _table(columns: Iterable[str], left: Iterable[str]) -> "Table":
    """An open table that fits into 80 columns; a narrower terminal folds its cells."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", overflow="fold")
    return table


def _first_to_last(first: float, last: float) -> str:
    """`0.1..0.2`, or one number."""
    return f"{first:.5g}" if first == last else f"{first:.4g}..{last:.4g}"
