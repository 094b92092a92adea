"""`dawnrun data`: makes and checks data sets."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dawnrun.cli.console import progress
from dawnrun.cli.stage import stage
from dawnrun.errors import DataError
from dawnrun.text import count, escaped, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dawnrun.dataset.folder import Split
    from dawnrun.dataset.resize import Filter

FOLDER = click.Path(path_type=Path)
SOURCE = click.Path(path_type=Path, exists=True)
SEED = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the shuffle of shards."
)
SHARD_MIB = click.option(
    "--shard-mib", type=click.IntRange(min=1), default=1024, show_default=True, help="Size of a shard."
)


@click.group()
def data() -> None:
    """Make and check data sets."""


data.add_command(stage)


@data.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Other pictures for each.")
def demo(folder: Path, seed: int) -> None:
    """Draw the demo data set, 30 classes of coloured shapes, into DIR.

    The same bytes for a seed. A complete set that is there already is kept; anything else in DIR is left alone.
    """
    from dawnrun.dataset.demo import COLOURS, SHAPES, TRAIN_PER_CLASS, VAL_PER_CLASS, write_demo

    is_new = write_demo(folder, seed=seed)
    num_classes = len(COLOURS) * len(SHAPES)
    sizes = (
        f"{count(num_classes * TRAIN_PER_CLASS)} training and {count(num_classes * VAL_PER_CLASS)} validation images"
    )
    click.echo(
        f"{'wrote' if is_new else 'kept, complete:'} {sizes} in {num_classes} classes: {escaped(folder.absolute())}"
    )


@data.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
def check(folder: Path) -> None:
    """Decode every image below DIR to its last byte and list everything that is wrong.

    Unreadable files with class and reason, class folders that are there twice, links that lead nowhere, and classes
    that train and val do not share. Ends with exit code 3 if there is any.
    """
    from dawnrun.dataset.check import check_images, list_splits
    from dawnrun.dataset.decode import printable

    scans, problems = list_splits(folder)
    if not scans:
        raise DataError("\n".join(problems))
    for split, scan in scans.items():
        size = f"{plural(len(scan.names), 'image')} in {count(len(scan.classes))} classes"
        click.echo(f"{split}: {size}: {printable(scan.folder)}")
    with progress("decoding", sum(len(scan.names) for scan in scans.values())) as advance:
        result = check_images(scans, advance)
    for remark in result.remarks:
        click.echo(f"remark: {remark}")
    for problem in (*problems, *result.problems):
        click.echo(f"problem: {problem}")
    for bad in result.bad:
        click.echo(f"unreadable: {bad}")
    found = len(problems) + len(result.problems)
    if found or result.bad:
        raise DataError(
            f"{printable(folder.absolute())}: {plural(len(result.bad), 'unreadable image')}, "
            f"{plural(found, 'other problem')}; listed above"
        )
    click.echo("nothing wrong was found")


@data.command()
@click.option("--train", required=True, type=SOURCE, help="ILSVRC2012_img_train.tar, or what was extracted from it.")
@click.option("--val", required=True, type=SOURCE, help="ILSVRC2012_img_val.tar, or a folder of its images.")
@click.option(
    "--devkit",
    type=SOURCE,
    help="Classes of flat validation images: ILSVRC2012_devkit_t12.tar.gz or its folder, LOC_val_solution.csv, "
    "or a text file with an image and its class on each line.",
)
@click.option("--out", required=True, type=FOLDER, help="Folder of the new set.")
@click.option("--any-size", is_flag=True, help="Take archives with other counts than the full set's.")
@click.option("--exclude-blacklisted", is_flag=True, help="Leave out the images of --blacklist-file: 48,238 remain.")
@click.option("--blacklist-file", type=SOURCE, help="ILSVRC2014_clsloc_validation_blacklist.txt, in the 2014 kit.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("folders", "shards")),
    default="folders",
    show_default=True,
    help="Class folders, or WebDataset shards as `dawnrun data pack` makes them of the folders.",
)
@SEED
@SHARD_MIB
def imagenet(
    train: Path,
    val: Path,
    devkit: Path | None,
    out: Path,
    any_size: bool,
    exclude_blacklisted: bool,
    blacklist_file: Path | None,
    form: str,
    seed: int,
    shard_mib: int,
) -> None:
    """Put ILSVRC2012 into class folders or shards, from its archives or from what was extracted from them.

    Every byte of an image stays as it is; files of an extracted tree are hard-linked where that is possible. Counts
    are checked (1,000 classes, 1,281,167 and 50,000 images). Killed at any point, the same command goes on after the
    last finished class or shard.
    """
    from dawnrun.dataset.imagenet import find_sources, write_imagenet
    from dawnrun.dataset.imagenet_shards import write_imagenet_shards

    if exclude_blacklisted != (blacklist_file is not None):
        raise click.UsageError("--exclude-blacklisted and --blacklist-file need each other")
    sources = find_sources(train, val, devkit, blacklist=blacklist_file)
    if form == "shards":
        is_new, numbers = write_imagenet_shards(
            out,
            sources,
            any_size=any_size,
            seed=seed,
            shard_bytes=shard_mib * 2**20,
            progress=lambda total: progress("images", total),
        )
        print_packed(out, is_new, numbers)
        return
    with progress("classes", sum(map(len, sources.splits.values()))) as advance:
        is_new = write_imagenet(out, sources, any_size=any_size, advance=advance)
    click.echo(f"{'wrote' if is_new else 'kept, complete:'} {escaped(out.absolute())}")


@data.command()
@click.argument("source", metavar="SRC", type=SOURCE)
@click.argument("folder", metavar="DST", type=FOLDER)
@click.option("--short-side", required=True, type=click.IntRange(min=8), help="Pixels of the shorter side.")
@click.option("--quality", type=click.IntRange(1, 100), default=90, show_default=True, help="JPEG quality.")
@click.option(
    "--filter",
    "filter_name",
    type=click.Choice(["lanczos", "bicubic", "bilinear", "box"]),
    default="lanczos",
    show_default=True,
    help="How pixels are resampled.",
)
@click.option("--processes", type=click.IntRange(min=1), help="Default: one for each core.")
def resize(
    source: Path, folder: Path, short_side: int, quality: int, filter_name: "Filter", processes: int | None
) -> None:
    """Copy the data set SRC to DST with smaller images, which decode faster.

    Names and classes stay. Smaller images keep their size; orientation tags are dropped, never applied; CMYK, palette
    and 16-bit images become RGB. Killed at any point, the same command goes on. A complete copy is kept.
    """
    from dawnrun.dataset.resize import Settings, write_resized

    settings = Settings(short_side=short_side, quality=quality, filter=filter_name)
    processes = processes or cores()
    is_new, num_images = write_resized(
        source, folder, settings, num_processes=processes, progress=lambda total: progress("resizing", total)
    )
    how = f"short side {short_side} px, JPEG quality {quality}, {filter_name} filter"
    click.echo(
        f"{'wrote' if is_new else 'kept, complete:'} {plural(num_images, 'image')} ({how}): {escaped(folder.absolute())}"
    )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@data.command()
@click.argument("source", metavar="SRC", type=SOURCE)
@click.argument("folder", metavar="DST", type=FOLDER)
@SEED
@SHARD_MIB
@click.option("--classes", type=SOURCE, help="Names of the classes of Parquet files, a line each, from number 0 on.")
def pack(source: Path, folder: Path, seed: int, shard_mib: int, classes: Path | None) -> None:
    """Pack the data set SRC into WebDataset shards in DST, shuffled once.

    SRC holds class folders, shards, or Parquet files as Hugging Face has them (columns `image` and `label`).

    A run reads the shards in any order through an index beside them, with the same batches as from SRC. Killed at any
    point, the same command goes on after the last shard and makes the same files. A complete set is kept.
    """
    from dawnrun.dataset.pack import write_shards
    from dawnrun.dataset.parquet_shards import has_parquet, pack_parquet

    shard_bytes = shard_mib * 2**20
    if has_parquet(source):
        is_new, numbers = pack_parquet(
            source,
            folder,
            classes=classes,
            seed=seed,
            shard_bytes=shard_bytes,
            listing=lambda total: progress("reading files", total),
            progress=lambda total: progress("packing", total),
        )
    elif classes is not None:
        raise click.UsageError(
            f"--classes: no Parquet files in {escaped(source)}, and other sets name their own classes"
        )
    else:
        is_new, numbers = write_shards(
            source, folder, seed=seed, shard_bytes=shard_bytes, progress=lambda total: progress("packing", total)
        )
    print_packed(folder, is_new, numbers)


def print_packed(folder: Path, is_new: bool, numbers: "Mapping[Split, tuple[int, int]]") -> None:
    """What a folder of shards holds; `numbers`: shards and images of each split."""
    sizes = " and ".join(
        f"{plural(images, 'image')} ({split}) in {plural(shards, 'shard')}"
        for split, (shards, images) in numbers.items()
    )
    click.echo(f"{'wrote' if is_new else 'kept, complete:'} {sizes}: {escaped(folder.absolute())}")
