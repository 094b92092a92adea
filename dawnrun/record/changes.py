"""What differs between the attempts of a run, where one figure would else stand for two different things."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from dawnrun.record.rows import Attempt
from dawnrun.text import count

_COUNTS: Mapping[str, str] = {
    "num_train_images": "training images",
    "num_val_images": "validation images",
    "num_classes": "classes",
}
DATA_FIELDS = (*_COUNTS, "classes_sha256", "data_fingerprints")
"""Fields of `run.started` that say what an attempt read."""


def data_remarks(starts: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    """Attempts that read other data than the one before them, from (number, fields of `run.started`) of each."""
    for (before, first), (number, then) in pairwise(starts):
        found = list(_data_changes(first, then))
        if found:
            yield (
                f"attempt {number} read other data than attempt {before}: {'; '.join(found)}; "
                "epochs before and after are not of one data set"
            )


def _data_changes(first: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """What differs; a field that one of them lacks says nothing."""
    for key, name in _COUNTS.items():
        if key in first and key in then and first[key] != then[key]:
            yield f"{count(then[key])} {name}, not {count(first[key])}"
    if "classes_sha256" in first and "classes_sha256" in then and first["classes_sha256"] != then["classes_sha256"]:
        yield "other names of classes"
    old, new = (_flat(started.get("data_fingerprints")) for started in (first, then))
    changed = [name for name in old if name in new and old[name] != new[name]]
    if changed:
        yield f"other files in {', '.join(changed)}"


def _flat(fingerprints: Any) -> Mapping[str, Any]:
    """`full/train` and so on -> SHA-256."""
    if not isinstance(fingerprints, Mapping):
        return {}
    splits = ((name, split) for name, split in fingerprints.items() if isinstance(split, Mapping))
    return {f"{name}/{split}": value for name, parts in splits for split, value in parts.items()}


def target_changes(attempts: Sequence[Attempt]) -> Sequence[tuple[int, Mapping[str, float], Mapping[str, float]]]:
    """(attempt, target before, its own target) wherever an attempt asks for other accuracies than the one before."""
    known = [(attempt.number, attempt.target) for attempt in attempts if attempt.target is not None]
    return [(number, before, after) for (_, before), (number, after) in pairwise(known) if before != after]


def target_remarks(attempts: Sequence[Attempt]) -> Iterator[str]:
    """A target that was changed on the way."""
    for number, before, after in target_changes(attempts):
        yield (
            f"attempt {number} changed the target from {_text(before)} to {_text(after)}: "
            "a validation counts for the target that was in force when it was made"
        )


def _text(target: Mapping[str, float]) -> str:
    return " and ".join(f"{name.replace('top', 'top-')} {value:g} %" for name, value in target.items()) or "none"
