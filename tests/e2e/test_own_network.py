"""A network of the user's own, as docs/recipes.md shows it, and what is said where it cannot be had."""

import re
from pathlib import Path

import pytest
from cli_runs import Cli

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
TARGETLESS = ("phases[0].epochs=1",)


def test_the_documented_example_trains(cli: Cli) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (cli.folder / "my_networks.py").write_text(example)
    done = cli.train('model={import: "my_networks:build"}', "average={half_life_steps: 2}", *TARGETLESS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished; best: top-5" in done.stdout
    validated = cli.run("validate", str(cli.newest()))
    assert validated.returncode == 0, validated.stdout + validated.stderr


def test_a_package_that_is_not_there_is_told_at_its_line(cli: Cli) -> None:
    with (cli.folder / "tiny.yaml").open("a") as file:
        file.write("model: {import: 'no_such_package.inside:build'}\n")
    done = cli.train()
    assert done.returncode == 2
    assert "tiny.yaml:13:17: model.import: there is no package or module no_such_package" in done.stderr
    assert not (cli.folder / "runs").exists()


@pytest.mark.parametrize(
    ("path", "words"),
    [("odd:text", "model.import: odd:text returned a str, not a torch.nn.Module"), ("odd:gone", "odd has no gone")],
)
def test_what_only_the_worker_can_find_out(cli: Cli, path: str, words: str) -> None:
    (cli.folder / "odd.py").write_text("def text(num_classes):\n    return 'x'\n")
    done = cli.train(f"model={{import: '{path}'}}")
    assert done.returncode == 2
    assert words in done.stdout + done.stderr and "Traceback" not in done.stdout + done.stderr
