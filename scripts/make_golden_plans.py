"""Write tests/golden/plans anew: `python scripts/make_golden_plans.py` (make golden); review the difference."""

from pathlib import Path

from click.testing import CliRunner

from dawnrun.cli.plan import plan
from dawnrun.recipe.builtin import names
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe

FOLDER = Path(__file__).parent.parent / "tests" / "golden" / "plans"


def published_recipes() -> list[str]:
    """Shipped recipes of published runs: those that know their number of images."""
    return [name for name in names() if read(name, Recipe).value.provenance.confidence != "own"]


def plan_text(name: str) -> str:
    """What `dawnrun plan --config NAME` prints on one process, without spaces at the ends of lines."""
    result = CliRunner().invoke(plan, ["--config", name], env={"COLUMNS": "120"}, catch_exceptions=False)
    return "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())


def main() -> None:
    """Rewrite all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name in published_recipes():
        (FOLDER / f"{name}.txt").write_text(plan_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
