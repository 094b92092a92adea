"""What is in a checkpoint, and how it is read: a folder with two files and a manifest that holds their checksums."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dawnrun.errors import DataError, TrainError, UsageError
from dawnrun.train.step import TrainState

FORMAT_VERSION = 1
MODEL, STATE, MANIFEST = "model.pt", "state.pt", "checkpoint.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """One complete checkpoint. `why` it was saved: epoch, steps, target, last, signal."""

    path: Path
    step: int
    epoch: int
    why: tuple[str, ...]
    manifest: Mapping[str, Any]

    @property
    def num_bytes(self) -> int:
        """Size of its files."""
        return sum(int(entry["bytes"]) for entry in self.manifest["files"].values())


def read_manifest(path: Path) -> Checkpoint | None:
    """The checkpoint in a folder, or None if the folder holds none; its files are not read."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format_version"] > FORMAT_VERSION:
            raise TrainError(f"{path}: written by a newer dawnrun (checkpoint format {manifest['format_version']})")
        return describe(path, manifest)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe(path: Path, manifest: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint in `path` that the manifest speaks of."""
    return Checkpoint(
        path=path,
        step=int(manifest["step"]),
        epoch=int(manifest["epoch"]),
        why=tuple(manifest["why"]),
        manifest=manifest,
    )


def damage(checkpoint: Checkpoint) -> str | None:
    """What is wrong with a checkpoint's files, or None if their checksums hold."""
    for name, entry in checkpoint.manifest["files"].items():
        try:
            with (checkpoint.path / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
        if digest != entry["sha256"]:
            return f"{name} does not have the checksum that was written with it"
    return None


def check_classes(checkpoint: Checkpoint, classes: Sequence[str]) -> None:
    """Raise DataError, with the first difference, unless the checkpoint was trained on these classes."""
    stored = tuple(checkpoint.manifest["classes"])
    if stored == tuple(classes):
        return
    pairs = zip((*stored, None), (*classes, None), strict=False)
    number, (theirs, ours) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    raise DataError(
        f"{checkpoint.path}: trained on {len(stored)} classes, the data have {len(classes)}; first difference:"
        f" class {number} is {theirs!r} in the checkpoint and {ours!r} in the data"
    )


Key = tuple[str, ...]
"""Where a value belongs: `model`, name; `optimizer`, name, slot; `average`, name; `loss_scale`, name."""


def state_values(state: TrainState) -> dict[Key, Any]:
    """Everything that a checkpoint keeps, as it is now: the tensors themselves, not copies."""
    slots = state.optimizer.state
    values: dict[Key, Any] = {("model", name): value for name, value in state.bare.state_dict().items()}
    for name, parameter in state.bare.named_parameters():
        for slot, value in slots[parameter].items() if parameter in slots else ():
            if isinstance(value, torch.Tensor):
                values["optimizer", name, slot] = value
    if state.average is not None:
        values |= {("average", name): value for name, value in state.average.model.state_dict().items()}
    if state.loss_scale is not None:
        values |= {("loss_scale", name): value for name, value in state.loss_scale.state().items()}
    return values


def contents(values: Mapping[Key, Any]) -> dict[str, dict[str, Any]]:
    """The two files of a checkpoint: tensors, numbers, lists and mappings only."""
    parts: dict[str, dict[str, Any]] = {}
    optimizer: dict[str, dict[str, Any]] = {}
    for (part, name, *slot), value in values.items():
        if slot:
            optimizer.setdefault(name, {})[slot[0]] = value
        else:
            parts.setdefault(part, {})[name] = value
    rest = {"optimizer": optimizer, "loss_scale": parts.get("loss_scale"), "average": parts.get("average")}
    return {MODEL: parts["model"], STATE: rest}


def load(checkpoint: Checkpoint, state: TrainState) -> list[str]:
    """Put a checkpoint's values into `state`, and return what it lacked."""
    load_model(checkpoint, state.bare)
    rest = torch.load(checkpoint.path / STATE, weights_only=True, map_location="cpu")
    _load_optimizer(state, rest["optimizer"])
    state.step = checkpoint.step
    return [*_load_scale(checkpoint, state, rest), *_load_average(checkpoint, state, rest)]


def load_model(checkpoint: Checkpoint, model: torch.nn.Module) -> None:
    """Put a checkpoint's weights and statistics into a bare model."""
    weights = torch.load(checkpoint.path / MODEL, weights_only=True, map_location="cpu")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        first = str(error).partition("\n")[2].strip().partition("\n")[0]
        raise UsageError(f"{checkpoint.path}: not a checkpoint of this recipe's model: {first}") from error


def load_weights(checkpoint: Checkpoint, state: TrainState) -> None:
    """Put in all that validation may look at: the model, and its average where the recipe keeps one."""
    load_model(checkpoint, state.bare)
    if state.average is None:
        return
    if STATE not in checkpoint.manifest["files"]:  # a snapshot: the weights that were to be validated, alone
        load_model(checkpoint, state.average.model)
    else:
        _load_average(checkpoint, state, torch.load(checkpoint.path / STATE, weights_only=True, map_location="cpu"))


def _load_scale(checkpoint: Checkpoint, state: TrainState, rest: Mapping[str, Any]) -> list[str]:
    """Go on with the loss scale, or say that it starts anew."""
    if state.loss_scale is None:
        return []
    if rest["loss_scale"] is None:
        return [f"{checkpoint.path} holds no loss scale: it starts at {state.loss_scale.scale.item():g} again"]
    state.loss_scale.load(rest["loss_scale"])
    return []


def _load_average(checkpoint: Checkpoint, state: TrainState, rest: Mapping[str, Any]) -> list[str]:
    """Go on with the average of the weights, or say that it starts at the weights themselves."""
    if state.average is None:
        return []
    if rest.get("average") is None:
        state.average.model.load_state_dict(state.bare.state_dict())
        return [f"{checkpoint.path} holds no average of the weights: it starts at the weights themselves"]
    state.average.model.load_state_dict(rest["average"])
    return []


def _load_optimizer(state: TrainState, stored: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    """Give each parameter its own values by name, in the parameter's memory layout and on its device."""
    for name, parameter in state.bare.named_parameters():
        for key, value in stored.get(name, {}).items():
            is_alike = value.shape == parameter.shape
            like = torch.empty_like(parameter) if is_alike else torch.empty_like(value, device=parameter.device)
            state.optimizer.state[parameter][key] = like.copy_(value)
