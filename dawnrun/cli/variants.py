"""Recipes changed for another machine: `--shrink` and `--rescale`."""

from dataclasses import replace

import click

from dawnrun.recipe.reader import Document
from dawnrun.recipe.rescale import rescale as rescaled
from dawnrun.recipe.schema import Recipe
from dawnrun.recipe.shrink import shrink as shrunk

SHRINK = click.option(
    "--shrink",
    type=click.Choice(["demo"]),
    help="demo: all phases of the recipe on the demo data set, small enough for a CPU; no reproduction.",
)
RESCALE = click.option(
    "--rescale",
    is_flag=True,
    help="Another number of processes changes batches and rates, instead of accumulating to the recipe's batches.",
)


def changed(document: Document[Recipe], world_size: int, *, shrink: str | None, rescale: bool) -> Document[Recipe]:
    """The recipe as asked for; problems still point at the lines of the file."""
    value = document.value if shrink is None else shrunk(document.value)
    return replace(document, value=rescaled(value, world_size) if rescale else value)
