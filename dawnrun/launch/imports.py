"""Whether a network of the user's own can be there, without loading it."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from dawnrun.errors import RecipeError
from dawnrun.recipe.reader import Document
from dawnrun.recipe.schema import Recipe


def check_import(document: Document[Recipe]) -> None:
    """The package of a network of the user's own is there; what is in it, the worker finds out.

    RecipeError at its line. Nothing is imported: the package may take seconds to load, and torch with it.
    """
    path = document.value.model.import_
    if path is None:
        return
    package = path.partition(":")[0].partition(".")[0]
    if PathFinder.find_spec(package, [str(Path.cwd()), *sys.path]) is None and package not in sys.builtin_module_names:
        hint = "it is looked for in the current folder and among the installed packages"
        problem = document.problem("model.import", f"there is no package or module {package}", (hint,))
        raise RecipeError([problem], subject=document.source)
