"""The initial weights of a recipe, built anew: `python -m dawnrun.train.rebuild RESOLVED.yaml --num-classes N`.

Prints the SHA-256 that a run with this seed states in its event log.
"""

import argparse
from pathlib import Path


def main() -> None:
    """Build the model and print its hash."""
    parser = argparse.ArgumentParser(prog="python -m dawnrun.train.rebuild")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--num-classes", type=int, required=True)
    arguments = parser.parse_args()

    from dawnrun.recipe.reader import read
    from dawnrun.recipe.schema import Recipe
    from dawnrun.train.model import build_model, weights_sha256

    recipe = read(arguments.recipe, Recipe).value
    num_classes = recipe.model.num_classes or arguments.num_classes
    model = build_model(recipe.model, num_classes=num_classes, seed=recipe.seed)
    print(weights_sha256(model.state_dict()))


if __name__ == "__main__":
    main()
