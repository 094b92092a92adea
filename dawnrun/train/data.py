"""The data that a run reads, found and held against its recipe."""

from dataclasses import dataclass

from dawnrun.dataset.index import DatasetIndex, build_index, check_same_classes
from dawnrun.errors import DataError, RecipeError
from dawnrun.recipe.reader import Document
from dawnrun.recipe.schema import Recipe
from dawnrun.train.entry import Worker


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The indexes a run reads: training sets by name, and the validation set."""

    train_sets: dict[str, DatasetIndex]
    validation_set: DatasetIndex

    @property
    def num_train_images(self) -> int:
        """Images in an epoch."""
        return len(next(iter(self.train_sets.values())))


def find_data(worker: Worker) -> Data:
    """Index what the recipe reads. Raises DataError if it is missing, damaged or of another size than stated."""
    recipe, root = worker.recipe.value, worker.site.data_root
    max_bad = recipe.input.max_bad_images
    used = dict.fromkeys(phase.dataset for phase in recipe.phases)
    if not worker.peers.is_first:
        worker.peers.barrier()  # rank 0 reads the headers and leaves them in the cache
    train_sets = {name: build_index(root / recipe.input.datasets[name], "train", max_bad=max_bad) for name in used}
    validation_set = build_index(root / recipe.input.datasets[recipe.validation_dataset], "val")
    if worker.peers.is_first:
        worker.peers.barrier()
    counts = {name: len(index) for name, index in train_sets.items()}
    stated = recipe.input.num_train_images
    if len(set(counts.values())) > 1 or (stated is not None and stated not in counts.values()):
        found = ", ".join(f"{name} has {number:,}" for name, number in counts.items())
        wanted = "one number in all of them" if stated is None else f"input.num_train_images = {stated:,}"
        raise DataError(f"number of training images: {found}; the recipe needs {wanted}")
    for index in train_sets.values():
        check_same_classes(index, validation_set)
    check_recipe_fits(worker.recipe, len(validation_set.classes))
    return Data(train_sets=train_sets, validation_set=validation_set)


def check_recipe_fits(recipe: Document[Recipe], num_classes: int) -> None:
    """Raise RecipeError, at its line, for what a recipe cannot mean on data of so many classes."""
    problems, outputs = [], recipe.value.model.num_classes
    if recipe.value.target.top5 is not None and num_classes <= 5:
        message = f"the data have {num_classes} classes, of which the top 5 are always right"
        problems.append(recipe.problem("target.top5", message, ("leave it out and give target.top1",)))
    if outputs is not None and outputs < num_classes:
        message = f"{outputs} outputs cannot tell the {num_classes} classes of the data apart"
        problems.append(
            recipe.problem("model.num_classes", message, (f"leave it out, or give at least {num_classes}",))
        )
    if problems:
        raise RecipeError(problems, subject=recipe.source)
