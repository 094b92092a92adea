"""The recipes and sites that come with dawnrun, and the files that users name."""

from pathlib import Path

from dawnrun.errors import UsageError
from dawnrun.recipe.fields import Part
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import nearest

_FOLDERS: dict[type[Part], str] = {Recipe: "recipes", Site: "sites"}


def configs_folder() -> Path:
    """`configs/`: inside the package in a wheel, beside it in a checkout or an editable install."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def names(kind: type[Part] = Recipe) -> tuple[str, ...]:
    """Names of the shipped recipes or sites, sorted."""
    return tuple(sorted(path.stem for path in (configs_folder() / _FOLDERS[kind]).glob("*.yaml")))


def find(name_or_path: str, kind: type[Part]) -> Path:
    """The file a user means: a path if it has a separator or ends in .yaml or .yml, else a shipped name.

    Raises UsageError for an unknown name, with the nearest; whether a path exists is for the reader to say.
    """
    path = Path(name_or_path)
    if len(path.parts) > 1 or path.suffix in (".yaml", ".yml"):
        return path
    known = names(kind)
    if name_or_path in known:
        return configs_folder() / _FOLDERS[kind] / f"{name_or_path}.yaml"
    if name_or_path and path.exists():
        return path
    near = nearest(name_or_path, known)
    thing = kind.__name__.lower()
    lines = [
        f"{name_or_path!r}: no such {thing}, and no such file",
        f"    shipped: {', '.join(known) or 'none'}",
        *([f"    did you mean {near}?"] if near else []),
    ]
    raise UsageError("\n".join(lines))


def find_recipe(name_or_path: str) -> Path:
    """The file of a recipe."""
    return find(name_or_path, Recipe)


def find_site(name_or_path: str) -> Path:
    """The file of a site."""
    return find(name_or_path, Site)
