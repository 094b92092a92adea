"""Validation of a stored checkpoint: the same code as inside a run, alone, on any number of processes."""

import json
from dataclasses import asdict
from pathlib import Path

from dawnrun.errors import UsageError
from dawnrun.recipe.schema import Phase, Recipe, View
from dawnrun.record.rundir import RunDir
from dawnrun.train.build import build_state, initial_model
from dawnrun.train.checkpoint import check_classes, damage, load_weights, read_manifest
from dawnrun.train.data import find_data
from dawnrun.train.entry import enter
from dawnrun.train.evaluate import evaluate
from dawnrun.train.input import open_input
from dawnrun.train.startup import Startup
from dawnrun.train.step import Stepper
from dawnrun.train.validation import validated_model


def _seen_at(recipe: Recipe, phase: Phase, own: View, image_size: int) -> tuple[Recipe, View]:
    """The view of `phase` at `image_size`, and the recipe with that view in every phase, which its buffers are made for.

    Batches are made smaller where images are larger than `own` ones, so that about as much memory is needed.
    """
    view = phase.validation.model_copy(update={"image_size": image_size, "resize_px": None}).resolved(image_size)
    pixels = recipe.validation.batch_size * (own.image_size or image_size) ** 2
    batch_size = max(1, min(recipe.validation.batch_size, pixels // image_size**2))
    phases = tuple(each.model_copy(update={"validation": view}) for each in recipe.phases)
    validation = recipe.validation.model_copy(update={"batch_size": batch_size})
    return recipe.model_copy(update={"phases": phases, "validation": validation}), view


def validate_checkpoint(
    run: RunDir, attempt: int, path: Path, *, began: float, image_size: int | None, output: Path
) -> None:
    """Validate the checkpoint at `path` as its phase does, or at `image_size`, and write the counts to `output`."""
    checkpoint = read_manifest(path)
    if checkpoint is None:
        raise UsageError(f"{path}: not a checkpoint: it has no readable checkpoint.json")
    if trouble := damage(checkpoint):
        raise UsageError(f"{path}: damaged: {trouble}")
    worker = enter(run, attempt, began=began, startup=Startup(0.0))
    recipe, peers = worker.recipe.value, worker.peers
    data = find_data(worker)
    check_classes(checkpoint, data.validation_set.classes)
    precision = str(checkpoint.manifest["precision"])
    phase, epoch_image_size = recipe.phase_of(checkpoint.epoch)
    view = phase.validation.resolved(epoch_image_size)
    if image_size is not None:
        recipe, view = _seen_at(recipe, phase, view, image_size)
    assert view.image_size is not None
    model = initial_model(worker, num_classes=len(data.validation_set.classes))
    state = build_state(worker, model, precision)
    load_weights(checkpoint, state)
    batches = open_input(
        recipe,
        train_sets=data.train_sets,
        validation_set=data.validation_set,
        rank=peers.rank,
        world_size=peers.world_size,
        num_threads=worker.decode_threads,
        device=worker.device,
        on_bad_image=lambda _image: None,
    )
    result = evaluate(
        validated_model(state, recipe),
        batches.validation(view, view.image_size),
        Stepper(recipe, precision, worker.device),
        peers,
        flip_average=view.flip_average,
    )
    batches.close()
    if peers.is_first:
        facts = {
            "step": checkpoint.step,
            "epoch": checkpoint.epoch,
            "num_processes": peers.world_size,
            "num_classes": len(data.validation_set.classes),
            **view.model_dump(),
            **asdict(result),
        }
        aside = output.with_name(f".{output.name}")
        aside.write_text(json.dumps(facts), encoding="utf-8")
        aside.replace(output)
    peers.barrier()
    peers.close()
