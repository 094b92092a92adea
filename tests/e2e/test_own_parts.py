"""A network, a loss and images of the user's own, as docs/recipes.md shows them, and what is said where they cannot be had."""

import csv
import re
from pathlib import Path

import pytest
from cli_runs import Cli, sets

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPE = """
name: own
phases: [{epochs: 1, image_size: 32, global_batch_size: 16, per_device_batch_size: 4}]
lr: 0.01
"""


def test_the_documented_examples_train(cli: Cli) -> None:
    """The page's three modules and its piece of a recipe, on a data set that has no class folders."""
    for name, example in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.S):
        (cli.folder / name).write_text(example)
    (settings,) = re.findall(r"```yaml\n(model: .*?)```", PAGE, re.S)
    (cli.folder / "own.yaml").write_text(RECIPE + settings)
    listed(cli.data_root / "tiny", cli.folder / "my_data")
    done = cli.run(
        "train",
        "--config",
        "own.yaml",
        "--site",
        "site.yaml",
        "--data-root",
        ".",
        *sets(["average={half_life_steps: 2}"]),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 training and 30 validation images of 30 classes" in done.stdout
    assert "finished; best: top-5" in done.stdout
    validated = cli.run("validate", str(cli.newest()))
    assert validated.returncode == 0, validated.stdout + validated.stderr


def listed(data: Path, folder: Path) -> None:
    """The images of class folders in one folder, with a table for each split."""
    folder.mkdir()
    for split in ("train", "val"):
        with (folder / f"{split}.csv").open("w", newline="") as file:
            for image in sorted((data / split).glob("*/*")):
                name = f"{split}-{image.parent.name}-{image.name}"
                (folder / name).write_bytes(image.read_bytes())
                csv.writer(file).writerow([name, image.parent.name])


def test_packages_that_are_not_there_are_told_at_their_lines(cli: Cli) -> None:
    with (cli.folder / "tiny.yaml").open("a") as file:
        file.write("model: {import: 'no_such_package.inside:build'}\nloss: {import: 'nor_this:one'}\n")
    done = cli.train()
    assert done.returncode == 2
    assert "tiny.yaml:13:17: model.import: there is no package or module no_such_package" in done.stderr
    assert "tiny.yaml:14:16: loss.import: there is no package or module nor_this" in done.stderr
    assert not (cli.folder / "runs").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "model: {import: 'odd:text'}",
            "tiny.yaml:13:17: model.import: odd:text returned a str, not a torch.nn.Module",
        ),
        ("loss: {import: 'odd:gone'}", "tiny.yaml:13:16: loss.import: odd has no gone"),
    ],
)
def test_what_only_the_worker_can_find_out_is_told_at_the_users_line(cli: Cli, line: str, words: str) -> None:
    (cli.folder / "odd.py").write_text("def text(num_classes):\n    return 'x'\n")
    with (cli.folder / "tiny.yaml").open("a") as file:
        file.write(f"{line}\n")
    done = cli.train()
    assert done.returncode == 2
    assert words in done.stdout + done.stderr and "Traceback" not in done.stdout + done.stderr
