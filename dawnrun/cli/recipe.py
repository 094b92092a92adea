"""`dawnrun recipe`: check recipes, and show every value of one."""

from typing import TYPE_CHECKING, Any

import click

from dawnrun.cli.console import console
from dawnrun.errors import Problem, RecipeError, UsageError
from dawnrun.recipe.describe import description, key_text
from dawnrun.recipe.dump import flatten, flow_text, to_mapping
from dawnrun.recipe.fields import Part
from dawnrun.recipe.reader import Document, read
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import escaped, plural

if TYPE_CHECKING:
    from rich.table import Table

HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=HELP)
def recipe() -> None:
    """Check or show a recipe."""


@recipe.command(context_settings=HELP)
@click.argument("files", nargs=-1, required=True, metavar="RECIPE...")
def check(files: tuple[str, ...]) -> None:
    """Check recipes: files, or names of shipped ones. All problems are shown at once."""
    problems: list[Problem] = []
    faulty = 0
    for file in files:
        try:
            document = read(file, Recipe)
        except RecipeError as error:
            problems += error.problems
        except UsageError as error:
            problems.append(Problem(message=str(error)))
        else:
            value = document.value
            click.echo(f"OK {escaped(document.source)}: {plural(value.total_epochs, 'epoch')}, {_phases(value)}")
            continue
        faulty += 1
    if problems:
        raise RecipeError(problems, subject=f"{faulty} of {plural(len(files), 'file')}" if len(files) > 1 else files[0])


def _phases(value: Recipe) -> str:
    """`128, 224 and 288 px`."""
    sizes = list(dict.fromkeys(str(size) for sizes in value.image_sizes for size in sizes))
    return f"{' and '.join([*([', '.join(sizes[:-1])] if sizes[1:] else []), sizes[-1]])} px"


@recipe.command(context_settings=HELP)
@click.argument("file", metavar="RECIPE")
@click.option("--set", multiple=True, metavar="KEY=VALUE", help="Change a value, as in phases[0].epochs=3.")
@click.option("--site", metavar="SITE", help="Show this site's values too.")
def show(file: str, set: tuple[str, ...], site: str | None) -> None:
    """Show every value of a recipe, what it means and where it comes from."""
    tables = [_table(read(file, Recipe, set))]
    if site is not None:
        tables.append(_table(read(site, Site)))
    for table in tables:
        console().print(table)


def _table(document: Document[Any]) -> "Table":
    """One row a value."""
    from rich.table import Table

    value: Part = document.value
    table = Table(title=document.source, title_justify="left", box=None, pad_edge=False)
    for name in ("key", "value", "from"):
        table.add_column(name, overflow="fold")
    table.add_column("meaning", overflow="fold", ratio=1)
    origins = document.origins
    for path, leaf in flatten(to_mapping(value)).items():
        origin = origins[key_text(path)].replace(f"{document.source}:", "line ", 1)
        table.add_row(
            key_text(path),
            "-" if leaf is None else leaf if isinstance(leaf, str) else flow_text(leaf),
            origin,
            description(type(value), path),
        )
    return table
