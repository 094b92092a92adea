"""Puts a stand-in where a value is wrong, so that the rest of a recipe can be checked in the same pass."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from dawnrun.recipe.describe import ALSO_CALLED, KeyPath, children, field_at, key_text, known_keys
from dawnrun.recipe.schema import Recipe
from dawnrun.text import nearest

_MOST_ROUNDS = 12
"""Each round mends what the one before left; a value that stays wrong is mended with what is around it."""

_PHASE = {"epochs": "1", "image_size": "1", "global_batch_size": "1", "per_device_batch_size": "1"}
_PIECE: Mapping[str, Any] = {"epochs": ["0", "1"], "start": "0", "end": "0"}
_STAND_INS: Mapping[tuple[str, ...], Any] = {
    ("name",): "stand-in",
    ("lr",): "1",
    ("phases",): [_PHASE],
    ("phases", "*"): _PHASE,
    **{("phases", "*", key): value for key, value in _PHASE.items()},
    **{(curve, "*"): _PIECE for curve in ("lr", "momentum")},
    **{(curve, "*", key): value for curve in ("lr", "momentum") for key, value in _PIECE.items()},
}
"""What must not be left out; anything else that is wrong is left out, so that its default stands in."""


def mended(values: Mapping[str, Any]) -> tuple[Recipe, frozenset[str]] | None:
    """A recipe of what is right in `values`, and the keys of what it does not know; None if that cannot be made.

    The keys are those that have a stand-in or may have been meant by an unknown key: a finding that rests on one of
    them says nothing.
    """
    mending = deepcopy(dict(values))
    unknown: set[KeyPath] = set()
    meant: set[str] = set()
    for _ in range(_MOST_ROUNDS):
        try:
            recipe = Recipe.model_validate(mending)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_context=False):
                path, _value = written(mending, detail["loc"])
                if detail["type"] == "extra_forbidden":
                    if path and path[-1] == detail["loc"][-1]:  # else mended away in this round
                        meant |= _meant(path, mending)
                        _container(mending, path).pop(path[-1], None)
                    continue
                if detail["type"] == "missing":
                    path = (*path, detail["loc"][-1])
                _mend(mending, path, unknown)
        else:
            return recipe, frozenset({key_text(path).removesuffix(".segments") for path in unknown} | meant)
    return None


def _mend(values: dict[str, Any], path: KeyPath, unknown: set[KeyPath]) -> None:
    """Put a stand-in at `path`, or around it where there is none, or where it did not help the last time."""
    while path:
        stand_in = _STAND_INS.get(tuple("*" if isinstance(part, int) else part for part in path if part != "segments"))
        if path not in unknown and (stand_in is not None or isinstance(path[-1], str)):
            break
        path = path[:-1]
    if not path:
        return
    unknown.add(path)
    container = _container(values, path)
    if stand_in is not None:
        container[path[-1]] = deepcopy(stand_in)
    else:
        container.pop(path[-1], None)


def _container(values: Any, path: KeyPath) -> Any:
    """What holds the value at `path`."""
    for part in path[:-1]:
        values = values[part]
    return values


def _meant(path: KeyPath, values: Mapping[str, Any]) -> set[str]:
    """Keys that an unknown one may stand for, beside it or elsewhere in the recipe."""
    *_, name = path
    here = [key for key in children(field_at(Recipe, path[:-1])[0]) if key not in _container(values, path)]
    close = ALSO_CALLED.get(str(name)) or nearest(str(name), here)
    beside = {key_text((*path[:-1], close))} if close else set()
    phases = values.get("phases")
    entries = [f"[{index}]" for index in range(len(phases))] if isinstance(phases, list) else []
    elsewhere = [place for known, place in known_keys(Recipe) if known == name]
    return beside | {
        place.replace("[]", entry) for place in elsewhere for entry in (entries if "[]" in place else [""])
    }


def written(value: Any, location: Sequence[int | str]) -> tuple[KeyPath, Any]:
    """The part of pydantic's location that is in the text, and the value there.

    Left out: names of a union's alternatives, a list's `segments` and a number's `constant`, missing keys.
    """
    path: KeyPath = ()
    for part in location:
        inside = (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        )
        if inside:
            path, value = (*path, part), value[part]
    return path, value
