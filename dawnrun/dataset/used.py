"""The data sets that a recipe uses, indexed and held against it: before a start and in every worker by the same code."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dawnrun.dataset.devkit import without_blacklisted
from dawnrun.dataset.folder import EXTENSIONS, Split, find_split, listed
from dawnrun.dataset.index import DatasetIndex, build_index, check_same_classes
from dawnrun.dataset.own import index_own
from dawnrun.dataset.shards import find_shards, index_name
from dawnrun.errors import DataError, RecipeError
from dawnrun.recipe.reader import Document
from dawnrun.recipe.schema import Recipe
from dawnrun.text import plural

FEW_IMAGES = 100_000
"""Up to so many in a split are indexed before a start too. More take a while to list, and the workers do it anyway."""
_BYTES_EACH = 20_000
"""Of an image in shards without an index, whose number is not known before they are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedSets:
    """The indexes a run reads: training sets by name, and the validation set."""

    train_sets: dict[str, DatasetIndex]
    validation_set: DatasetIndex

    def verdicts(self) -> Iterator[str]:
        """What earlier checks found, a line for each split that one looked at."""
        for name, index in (*self.train_sets.items(), ("validation", self.validation_set)):
            if index.verdict is not None:
                yield f"data set {name}: {index.verdict}"

    @property
    def num_train_images(self) -> int:
        """Images in an epoch."""
        return len(next(iter(self.train_sets.values())))


def _used(recipe: Recipe) -> dict[str, None]:
    return dict.fromkeys(phase.dataset for phase in recipe.phases)


def index_used(document: Document[Recipe], data_root: Path) -> UsedSets:
    """Index what the recipe reads.

    Raises DataError if it is missing, damaged or of another size than stated, RecipeError where the recipe asks for
    what these classes cannot give.
    """
    recipe = document.value
    folders, max_bad = recipe.input.datasets, recipe.input.max_bad_images
    train_sets = {name: _index(recipe, data_root / folders[name], "train", max_bad) for name in _used(recipe)}
    validation_set = _index(recipe, data_root / folders[recipe.validation_dataset], "val", 0)
    for index, allowed in (*((index, max_bad) for index in train_sets.values()), (validation_set, 0)):
        _refuse_known_bad(index, allowed)
    if recipe.validation.blacklist_file is not None:
        validation_set = without_blacklisted(validation_set, data_root / recipe.validation.blacklist_file)
    _check_counts(recipe, train_sets)
    for index in train_sets.values():
        check_same_classes(index, validation_set)
    _check_classes(document, len(validation_set.classes))
    return UsedSets(train_sets=train_sets, validation_set=validation_set)


def _index(recipe: Recipe, folder: Path, split: Split, max_bad: int) -> DatasetIndex:
    """One split, as dawnrun finds it or as the user's own code lists it."""
    if recipe.input.import_ is None:
        return build_index(folder, split, max_bad=max_bad)
    return index_own(recipe.input.import_, folder, split, max_bad=max_bad)


def _refuse_known_bad(index: DatasetIndex, allowed: int) -> None:
    """What a check has found unreadable need not be met after hours of training."""
    verdict = index.verdict
    if verdict is None or len(verdict.bad) <= allowed:
        return
    raise DataError(
        f"{plural(len(verdict.bad), 'unreadable image')}, {allowed:,} allowed, found by `dawnrun data check` on "
        f"{verdict.date}; nothing has changed since:\n{listed([str(bad) for bad in verdict.bad], noun='images')}\n"
        "    mend or remove them, or allow so many in training: input.max_bad_images in the recipe"
    )


def _check_counts(recipe: Recipe, train_sets: Mapping[str, DatasetIndex]) -> None:
    """All training sets of a run hold the same images, and as many as the recipe says."""
    counts = {name: len(index) for name, index in train_sets.items()}
    stated = recipe.input.num_train_images
    if len(set(counts.values())) > 1 or (stated is not None and stated not in counts.values()):
        found = ", ".join(f"{name} has {number:,}" for name, number in counts.items())
        wanted = "one number in all of them" if stated is None else f"input.num_train_images = {stated:,}"
        raise DataError(f"number of training images: {found}; the recipe needs {wanted}")


def _check_classes(document: Document[Recipe], num_classes: int) -> None:
    """Top-5 accuracy of five classes or fewer is 100 % for every model; a network has an output for every class."""
    target, outputs = document.value.target.top5, document.value.model.num_classes
    problems = []
    if target is not None and num_classes <= 5:
        there = plural(num_classes, "class", "classes")
        message = f"the data have {there}, of which the top 5 are always right"
        problems.append(document.problem("target.top5", message, ("leave it out and give target.top1",)))
    if outputs is not None and outputs < num_classes:
        message = f"{outputs} outputs are too few for the {num_classes:,} classes of the data"
        problems.append(document.problem("model.num_classes", message, ("leave it out: it is as many as there are",)))
    if problems:
        raise RecipeError(problems, subject=document.source)


def is_small(recipe: Recipe, data_root: Path) -> bool:
    """Whether indexing all that the recipe reads takes seconds, even the first time. Raises DataError."""
    sets: list[tuple[str, Split]] = [(name, "train") for name in _used(recipe)]
    sets.append((recipe.validation_dataset, "val"))
    return all(_is_small(data_root / recipe.input.datasets[name], split) for name, split in sets)


def _is_small(root: Path, split: Split) -> bool:
    folder, shards = find_shards(root, split)
    if (root / index_name(split)).is_file():
        return True
    if shards:
        return sum((folder / name).stat().st_size for name in shards) <= FEW_IMAGES * _BYTES_EACH
    todo, entries = [str(find_split(root, split))], 0
    while todo and entries <= FEW_IMAGES:
        with os.scandir(todo.pop()) as found:
            for entry in found:
                entries += 1
                if not entry.name.lower().endswith(EXTENSIONS) and entry.is_dir():
                    todo.append(entry.path)
    return entries <= FEW_IMAGES
