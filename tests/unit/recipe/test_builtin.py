"""Where shipped recipes and sites are found."""

from pathlib import Path

import pytest

from dawnrun.errors import UsageError
from dawnrun.recipe import builtin
from dawnrun.recipe.builtin import configs_folder, find, find_recipe, find_site, names
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe, Site


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder with nothing in it."""
    folder = tmp_path / "lib" / "dawnrun"
    (folder / "recipe").mkdir(parents=True)
    monkeypatch.setattr(builtin, "__file__", str(folder / "recipe" / "builtin.py"))
    return folder


def fill(configs: Path) -> None:
    """Put two recipes and a site there."""
    for name in ("recipes/demo", "recipes/demo-full", "sites/lab"):
        path = configs / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("name: x\n")


@pytest.mark.parametrize("inside", [True, False])
def test_inside_the_package_or_beside_it(package: Path, inside: bool):
    """A wheel holds configs/ inside, a checkout and an editable install beside the package."""
    configs = (package if inside else package.parent) / "configs"
    fill(configs)
    assert configs_folder() == configs
    assert names() == ("demo", "demo-full")
    assert names(Site) == ("lab",)
    assert find_recipe("demo") == configs / "recipes" / "demo.yaml"
    assert find_site("lab") == configs / "sites" / "lab.yaml"


def test_without_any(package: Path):
    """No configs/ is no failure of its own."""
    assert names() == ()
    with pytest.raises(UsageError, match="shipped: none"):
        find_recipe("demo")


def test_unknown_names_get_the_nearest(package: Path):
    """C46: the known names, and the nearest."""
    fill(package / "configs")
    with pytest.raises(UsageError) as caught:
        find_recipe("dmeo")
    assert str(caught.value) == (
        "'dmeo': no such recipe, and no such file\n    shipped: demo, demo-full\n    did you mean demo?"
    )
    with pytest.raises(UsageError, match="no such site"):
        find_site("")


def test_paths_and_names(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A separator or .yaml makes a path; a shipped name goes before a file of that name; other files are found too."""
    fill(package / "configs")
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "mine"):
        (tmp_path / name).write_text("")
    for written in ("x.yaml", "x.yml", "./demo", "a/b", str(tmp_path / "mine")):
        assert find(written, Recipe) == Path(written) or Path(written) == Path("demo")
    assert find("demo", Recipe) == package / "configs" / "recipes" / "demo.yaml"
    assert find("mine", Recipe) == Path("mine")


def test_every_shipped_file_reads():
    """Every file in configs/ is right."""
    for kind in (Recipe, Site):
        for name in names(kind):
            assert read(name, kind).value.name == name
