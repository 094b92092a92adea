"""`dawnrun recipe check` and `show`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dawnrun.cli.recipe import recipe
from dawnrun.errors import RecipeError, UsageError

GOOD = """\
name: good
phases: [{epochs: 2, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}, {epochs: 1, image_size: 96, global_batch_size: 16, per_device_batch_size: 16}]
lr: 0.1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a good and a bad recipe."""
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(GOOD.replace("lr: 0.1", "lr: fast\nsede: 1"))
    return tmp_path


def run(*arguments: str) -> str:
    """Standard output; errors are raised."""
    return CliRunner().invoke(recipe, arguments, catch_exceptions=False, standalone_mode=False).output


def error_of(*arguments: str) -> Exception:
    """The error of a command line."""
    error = CliRunner().invoke(recipe, arguments, standalone_mode=False).exception
    assert isinstance(error, Exception)
    return error


def test_good_recipes_are_ok(folder: Path):
    """One line a file."""
    assert run("check", "good.yaml", "./good.yaml") == "OK good.yaml: 3 epochs, 64 and 96 px\n" * 2


def test_all_problems_of_all_files(folder: Path):
    """C03, C46: every file's problems, missing ones too, and how many files they are in."""
    error = error_of("check", "bad.yaml", "good.yaml", "none.yaml", ".")
    assert isinstance(error, RecipeError) and error.exit_code == 2
    lines = [line for line in str(error).splitlines() if not line.startswith(" ")]
    assert [line.split(": must")[0] for line in lines] == [
        "bad.yaml:3:5: lr",
        "bad.yaml:4:1: sede: unknown key",
        "none.yaml: no such file",
        ".: is a folder; name a YAML file in it",
        "4 problems in 3 of 4 files; nothing was started",
    ]


def test_check_of_one_file_names_it(folder: Path):
    """The last line counts the problems."""
    assert str(error_of("check", "bad.yaml")).endswith("2 problems in bad.yaml; nothing was started")


def test_show_every_value(folder: Path):
    """Every value with what it means and where it comes from."""
    lines = run("show", "good.yaml", "--set", "seed=7").splitlines()
    rows = {line.split()[0]: line for line in lines[2:]}
    assert rows["phases[0].image_size"].split()[1:4] == ["64", "line", "2"]
    assert "side of the training images in pixels" in rows["phases[0].image_size"]
    assert rows["seed"].split()[1:4] == ["7", "--set", "seed=7"]
    assert rows["lr"].split()[1:4] == ["0.1", "line", "3"]
    assert rows["optimizer.weight_decay"].split()[1:3] == ["0.0001", "default"]
    assert rows["target.top5"].split()[1:3] == ["-", "default"]
    assert "nodes" not in rows


def test_show_with_a_site(folder: Path):
    """The site's values too."""
    Path("s.yaml").write_text("nodes: 2\nenv: {A: 1}\n")
    rows = {line.split()[0]: line for line in run("show", "good.yaml", "--site", "s.yaml").splitlines() if line.strip()}
    assert rows["nodes"].split()[1:4] == ["2", "line", "1"]
    assert rows["env.A"].split()[1:4] == ["1", "line", "2"]


def test_values_are_never_markup(folder: Path):
    """Brackets in a value are printed as they are."""
    Path("good.yaml").write_text(GOOD + "provenance: {source: '[red]x[/red]'}\n")
    assert "[red]x[/red]" in run("show", "good.yaml")


def test_unknown_name(folder: Path):
    """C46: one message with what there is."""
    assert isinstance(error_of("show", "nosuch"), UsageError)
    assert "no such recipe, and no such file" in str(error_of("show", "nosuch"))
