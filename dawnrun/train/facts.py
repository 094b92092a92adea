"""What the event log says of an attempt at its start: recipe, site, data, versions, machine."""

import json
from pathlib import Path
from typing import Any

import torch

import dawnrun
from dawnrun.dataset.index import DatasetIndex
from dawnrun.recipe.dump import recipe_sha256, to_mapping
from dawnrun.recipe.schedule import EpochPlan, Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.machine import git_commit, machine_facts, package_versions

VERSIONED = ("torch", "torchvision", "numpy", "Pillow", "nvidia-dali-cuda120", "nvidia-dali-cuda130")


def started_facts(
    recipe: Recipe, site: Site, schedule: Schedule, device: torch.device, *, changes: Path
) -> dict[str, Any]:
    """Fields of run.started that follow from what is run; `changes`: file of values a resume changed, if there."""
    return {
        "schema_version": 1,
        "recipe": to_mapping(recipe),
        "site": to_mapping(site),
        "recipe_sha256": recipe_sha256(recipe),
        "total_steps": schedule.total_steps,
        "total_epochs": schedule.total_epochs,
        "world_size": site.world_size,
        "device": device.type,
        "device_name": None if device.type == "cpu" else torch.get_device_module(device).get_device_name(),
        "num_threads": torch.get_num_threads(),
        "versions": {"dawnrun": dawnrun.__version__, **package_versions(VERSIONED)},
        "git_commit": git_commit(Path(dawnrun.__file__).parent),
        "machine": dict(machine_facts()),
        "changes": json.loads(changes.read_text(encoding="utf-8")) if changes.exists() else {},
        "epochs": [_epoch_facts(epoch) for epoch in schedule.epochs()],
    }


def data_facts(train_sets: dict[str, DatasetIndex], validation_set: DatasetIndex) -> dict[str, Any]:
    """Fields of run.started that say what the data were."""
    trained = {name: {"train": index.fingerprint} for name, index in train_sets.items()}
    return {
        "num_train_images": len(next(iter(train_sets.values()))),
        "num_val_images": len(validation_set),
        "num_classes": len(validation_set.classes),
        "data_fingerprints": {**trained, "validation": {"val": validation_set.fingerprint}},
    }


def _epoch_facts(epoch: EpochPlan) -> dict[str, Any]:
    names = ("phase_index", "steps", "images", "repeated_images", "dropped_images", "validates")
    return {name: getattr(epoch, name) for name in names}
