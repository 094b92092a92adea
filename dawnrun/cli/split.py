"""Batches that cannot be split over a site of several machines: with how many nodes they could."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dawnrun.errors import RecipeError
from dawnrun.recipe.check import process_counts
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import plural


@contextmanager
def node_counts_told(recipe: Recipe, site: Site) -> Iterator[None]:
    """Adds the numbers of nodes that suit every phase to the RecipeError of a site whose number does not."""
    try:
        yield
    except RecipeError as error:
        raise _with_node_counts(error, recipe, site) from None


def _with_node_counts(error: RecipeError, recipe: Recipe, site: Site) -> RecipeError:
    processes = site.world_size // site.nodes
    counts = [count // processes for count in process_counts(recipe) if count % processes == 0]
    if site.launcher.local is not None or site.nodes in counts:
        return error
    told = ", ".join(map(str, counts)) or "no number of nodes"
    hint = f"with {plural(processes, 'process', 'processes')} on each node every phase can be split over: {told}"
    problems = [
        replace(problem, hints=(*problem.hints, hint)) if problem.key.endswith("global_batch_size") else problem
        for problem in error.problems
    ]
    return RecipeError(problems, subject=error.subject)
