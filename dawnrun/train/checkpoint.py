"""Checkpoints: a folder each, complete or not there, with checksums of its own."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

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


class _HashingFile:
    """A file that is hashed while it is written, so that no byte is read back."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest, self.num_bytes = file, hashlib.sha256(), 0
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.num_bytes += len(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _write(path: Path, value: object) -> dict[str, Any]:
    """Save `value` and push it to the disk; returns its size and checksum."""
    with path.open("wb") as file:
        hashing = _HashingFile(file)
        try:
            torch.save(value, cast(IO[bytes], hashing))
        except RuntimeError as error:  # torch's own for a write that failed; the disk's says why
            raise hashing.error or error from error
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": hashing.num_bytes, "sha256": hashing.digest.hexdigest()}


def _sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_folder(final: Path, files: Mapping[str, object], facts: Mapping[str, Any]) -> Checkpoint:
    """Write `files` (name: what torch saves) and a manifest of `facts` aside, fsync, rename to `final`.

    An OSError leaves nothing half-made.
    """
    aside = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        written = {name: _write(aside / name, value) for name, value in files.items()}
        manifest = {"format_version": FORMAT_VERSION, "saved_unix_s": time.time(), "files": written, **facts}
        with (aside / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(aside)
        shutil.rmtree(final, ignore_errors=True)  # a damaged one of the same step, which a resume went around
        aside.rename(final)
        _sync_folder(final.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return _describe(final, manifest)


class CheckpointStore:
    """The checkpoints of one run; `save` is called by rank 0 alone."""

    def __init__(self, folder: Path, *, keep: int, classes: Sequence[str]) -> None:
        """`keep`: how many of the newest stay; the first that reached the target stays too."""
        self.folder, self._keep, self._classes = folder, keep, tuple(classes)

    def save(self, state: TrainState, *, epoch: int, why: Sequence[str], extra: Mapping[str, Any]) -> Checkpoint:
        """Write aside, fsync, rename. An OSError leaves the earlier checkpoints alone and nothing half-made."""
        facts = {"step": state.step, "epoch": epoch, "why": list(why), "classes": list(self._classes), **extra}
        files = {MODEL: state.bare.state_dict(), STATE: _rest(state)}
        saved = write_folder(self.folder / f"step-{state.step:08d}", files, facts)
        self._drop_old()
        return saved

    def complete(self) -> list[Checkpoint]:
        """Every checkpoint with a manifest, oldest first; their files are not read."""
        found = (read_manifest(path) for path in sorted(self.folder.glob("step-*")))
        return [checkpoint for checkpoint in found if checkpoint is not None]

    def at(self, path: Path) -> Checkpoint:
        """The checkpoint in a folder that `latest` named on another process; TrainError if it is not seen here."""
        checkpoint = read_manifest(path)
        if checkpoint is None:
            raise TrainError(f"{path}: not seen by this process; run_root must be on a disk that all nodes share")
        return checkpoint

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint whose checksums hold, and what is wrong with each newer one."""
        damaged: list[str] = []
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            checkpoint = read_manifest(path)
            trouble = "no readable manifest" if checkpoint is None else damage(checkpoint)
            if checkpoint is not None and trouble is None:
                return checkpoint, damaged
            damaged.append(f"{path}: {trouble}")
        return None, damaged

    def load(self, checkpoint: Checkpoint, state: TrainState) -> list[str]:
        """Put a checkpoint's values into `state`, and return what it lacked; DataError if its classes are others."""
        check_classes(checkpoint, self._classes)
        load_model(checkpoint, state.bare)
        rest = torch.load(checkpoint.path / STATE, weights_only=True, map_location="cpu")
        _load_optimizer(state, rest["optimizer"])
        state.step = checkpoint.step
        return [*_load_scale(checkpoint, state, rest), *_load_average(checkpoint, state, rest)]

    def size_estimate(self, state: TrainState) -> int:
        """Bytes that the tensors of a checkpoint take."""
        tensors = [
            *state.bare.state_dict().values(),
            *(t for slot in state.optimizer.state.values() for t in slot.values()),
        ]
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))

    def put_aside_newer_than(self, path: Path) -> None:
        """Rename what is newer to `damaged-...`: it stays for whoever wants to know, and is no checkpoint any more."""
        for newer in self.folder.glob("step-*"):
            if newer.name > path.name:
                aside = newer.with_name(f"damaged-{newer.name}")
                shutil.rmtree(aside, ignore_errors=True)
                newer.rename(aside)

    def remove_leftovers(self) -> None:
        """Drop what a killed save left behind."""
        for path in self.folder.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _drop_old(self) -> None:
        """Keep the newest, and the first that reached the target."""
        complete = self.complete()
        crossing = next((checkpoint.path for checkpoint in complete if "target" in checkpoint.why), None)
        for checkpoint in complete[: -self._keep]:
            if checkpoint.path != crossing:
                shutil.rmtree(checkpoint.path, ignore_errors=True)


def read_manifest(path: Path) -> Checkpoint | None:
    """The checkpoint in a folder, or None if the folder holds none; its files are not read."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format_version"] > FORMAT_VERSION:
            raise TrainError(f"{path}: written by a newer dawnrun (checkpoint format {manifest['format_version']})")
        return _describe(path, manifest)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _describe(path: Path, manifest: Mapping[str, Any]) -> Checkpoint:
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


def _rest(state: TrainState) -> dict[str, Any]:
    """What a resume needs beside the model: tensors, numbers, lists and mappings only."""
    slots = state.optimizer.state
    momentum = {
        name: {key: value for key, value in slots[parameter].items() if isinstance(value, torch.Tensor)}
        for name, parameter in state.bare.named_parameters()
        if parameter in slots
    }
    return {
        "optimizer": momentum,
        "loss_scale": state.loss_scale.state() if state.loss_scale else None,
        "average": state.average.model.state_dict() if state.average else None,
    }


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
