"""What is checked on this machine before anything is started: data folders, run folder, room on the disk."""

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal

from dawnrun.errors import DataError, LaunchError, RecipeError, UsageError
from dawnrun.launch.facts import MARKER
from dawnrun.recipe.check import execution_fault
from dawnrun.recipe.reader import Document
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import nearest, size

CHECKPOINT_BYTES = 210_000_000
"""ResNet-50's 25.6 million weights and their momentum in fp32, with some room."""


def data_folders(recipe: Recipe, site: Site) -> Mapping[str, Path]:
    """Absolute folder of every data set that a phase or validation uses; none where only the recipe's own import knows."""
    if recipe.input.import_ is not None:
        return {}
    used = dict.fromkeys([*(phase.dataset for phase in recipe.phases), recipe.validation_dataset])
    return {name: (site.read_root / recipe.input.datasets[name]).absolute() for name in used}


def staged_folders(recipe: Recipe, site: Site) -> Mapping[str, tuple[Path, Path]]:
    """Data set -> its folder on the shared disk and that of its copy; empty without local_data_root.

    UsageError where a copy could not keep its place below the root.
    """
    if site.local_data_root is None:
        return {}
    found: dict[str, tuple[Path, Path]] = {}
    for name in data_folders(recipe, site):
        folder = Path(os.path.normpath(recipe.input.datasets[name]))
        if folder.is_absolute() or ".." in folder.parts:
            raise UsageError(f"input.datasets.{name}: {folder}: only a folder below data_root can be staged")
        place = Path(os.path.normpath(site.local_data_root / folder))
        if not any(place.is_relative_to(other) for _, other in found.values()):
            found[name] = (Path(os.path.normpath(site.data_root / folder)), place)
    return found


def node_needs(site: Site, data: Mapping[str, Path]) -> dict[str, Any]:
    """What every node must have, as a question to it (`dawnrun.launch.facts.node_facts`); `data`: from `data_folders`."""
    needs: dict[str, Any] = {"data": {name: str(folder) for name, folder in data.items()}}
    local = site.local_data_root and site.local_data_root.absolute()
    if local is not None:
        inside = {name: folder.relative_to(local) for name, folder in data.items() if folder.is_relative_to(local)}
        needs["stage"] = {name: [str(site.data_root / path), str(local / path)] for name, path in inside.items()}
    return needs


def check_staged(recipe: Recipe, site: Site) -> None:
    """Every data set was copied to this machine's own disk, where the site has one. DataError."""
    missing = [str(place) for _, place in staged_folders(recipe, site).values() if not (place / MARKER).exists()]
    if missing:
        raise DataError(
            f"not in local_data_root yet: {', '.join(missing)}\n"
            "nothing was started; copy it there with: dawnrun data stage --config RECIPE --site SITE"
        )


def check_import(document: Document[Recipe]) -> None:
    """The packages of what the recipe imports of the user's own are there; what is in them, the worker finds out.

    RecipeError at their lines. Nothing is imported: a package may take seconds to load, and torch with it.
    """
    recipe, hint = document.value, "it is looked for in the current folder and among the installed packages"
    problems = [
        document.problem(f"{key}.import", f"there is no package or module {package}", (hint,))
        for key, part in (("input", recipe.input), ("model", recipe.model), ("loss", recipe.loss))
        if part.import_ is not None and not _is_there(package := part.import_.partition(":")[0].partition(".")[0])
    ]
    if problems:
        raise RecipeError(problems, subject=document.source)


def _is_there(package: str) -> bool:
    folders = [str(Path.cwd()), *sys.path]
    return package in sys.builtin_module_names or PathFinder.find_spec(package, folders) is not None


def check_execution(document: Document[Recipe], site: Site) -> None:
    """RecipeError where the recipe's `compute.execution` cannot work on this site; the worker sees more."""
    reason = execution_fault(document.value.compute.execution, site.device, site.world_size)
    if reason is not None:
        raise RecipeError([document.problem("compute.execution", reason)], subject=document.source)


def check_data(folders: Mapping[str, Path]) -> None:
    """Every folder holds train/ and val/ with a class folder in each; DataError names what is missing, all at once."""
    problems = data_problems(folders)
    if problems:
        raise DataError(
            "\n".join([*problems, "nothing was started; --data-root or data_root in the site says where data are"])
        )


def data_problems(folders: Mapping[str, Path]) -> list[str]:
    """One line for each folder that is missing or holds no data set."""
    return [problem for name, folder in folders.items() for problem in _problems(name, folder)]


def _problems(name: str, folder: Path) -> list[str]:
    folder = Path(os.path.normpath(folder))
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        return [f"{folder}: {what} (data set {name}){_beside(folder)}"]
    # Imported here because they bring numpy and Pillow.
    from dawnrun.dataset.folder import find_split
    from dawnrun.dataset.shards import find_shards, index_name

    found = []
    splits: tuple[Literal["train", "val"], ...] = ("train", "val")
    for split in splits:
        try:
            if find_shards(folder, split)[1] or (folder / index_name(split)).is_file():
                continue
            part = find_split(folder, split)
        except DataError as error:
            found.append(f"data set {name}: {error}")
            continue
        try:
            with os.scandir(part) as entries:
                if not any(entry.is_dir() for entry in entries):
                    found.append(f"{part}: no class folders in it (data set {name})")
        except OSError as error:
            found.append(f"{part}: cannot be read: {(error.strerror or str(error)).lower()} (data set {name})")
    return found


def check_images(document: Document[Recipe], data_root: Path) -> int | None:
    """Index the data sets as a worker will, and return the number of training images; None where that takes long.

    What is read is kept in the cache that the workers look into. Raises DataError, or RecipeError where the recipe
    asks for what these data cannot give.
    """
    # Imported here because it brings numpy and Pillow.
    from dawnrun.dataset.devkit import read_blacklist
    from dawnrun.dataset.used import index_used, is_small

    left_out = document.value.validation.blacklist_file
    try:
        if left_out is not None:
            read_blacklist(data_root / left_out)
        if document.value.input.import_ is not None or not is_small(document.value, data_root):
            return None
        return index_used(document, data_root).num_train_images
    except DataError as error:
        raise DataError(f"{error}\nnothing was started") from error


def check_memory(document: Document[Recipe], num_processes: int) -> None:
    """This machine has room for the batches of `num_processes`. LaunchError says what would need less."""
    # Imported here because it brings numpy.
    from dawnrun.dataset.memory import available_bytes, buffer_bytes

    needed, available = num_processes * buffer_bytes(document.value), available_bytes()
    if available is not None and needed > available:
        raise LaunchError(
            f"{document.source}: batches of {num_processes} processes need {size(needed)} of memory, {size(available)} is free;"
            " lower phases[].per_device_batch_size or validation.batch_size, or image sizes"
        )


def _beside(folder: Path) -> str:
    """A folder of a similar name in the same place, for a typing error."""
    try:
        names = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    except OSError:
        return ""
    guess = nearest(folder.name, names)
    return f"; did you mean {folder.parent / guess}?" if guess else ""


OTHER_ROOT = "--run-root, or run_root in the site, names another folder"


def check_output(run_root: Path, keep: int) -> None:
    """A run directory can be made below `run_root`, with room for `keep` checkpoints and three more.

    UsageError if the folder cannot be made or written, LaunchError if the disk is too full.
    """
    try:
        run_root.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{run_root}: runs cannot be kept here: it is a file; {OTHER_ROOT}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{run_root}: runs cannot be kept here: {reason}; {OTHER_ROOT}") from error
    if not os.access(run_root, os.W_OK | os.X_OK):
        raise UsageError(f"{run_root}: runs cannot be kept here: no permission to write; {OTHER_ROOT}")
    free, needed = shutil.disk_usage(run_root).free, CHECKPOINT_BYTES * (keep + 3)
    if free < needed:
        raise LaunchError(
            f"{run_root}: {size(free)} free, {size(needed)} needed for {keep + 3} checkpoints: {keep} that are kept, the best,"
            f" the one that reaches the target, and the next while it is written; lower checkpoint.keep; {OTHER_ROOT}"
        )
