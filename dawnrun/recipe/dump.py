"""Models back to text: every value, in a form that reads back to an equal model."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dawnrun.recipe.describe import KeyPath, key_text
from dawnrun.recipe.fields import Part
from dawnrun.recipe.schema import Recipe

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"}
"""Words that some YAML reader takes for something else than text."""


def to_mapping(model: Part) -> dict[str, Any]:
    """Every value of a model as plain JSON values; paths are text, tuples lists."""
    return model.model_dump(mode="json", by_alias=True)


def resolved_text(model: Part) -> str:
    """Every value of a model as YAML; `read_text` makes an equal model of it."""
    return "".join(f"{line}\n" for line in _block(to_mapping(model), ""))


def _block(mapping: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A mapping as lines; lists of mappings as `- ` entries, other values on the key's line."""
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{_scalar(key)}:"
            yield from _block(value, f"{indent}  ")
        elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            yield f"{indent}{_scalar(key)}:"
            for entry in value:
                first, *others = _block(entry, f"{indent}    ")
                yield f"{indent}  - {first.lstrip()}"
                yield from others
        else:
            yield f"{indent}{_scalar(key)}: {flow_text(value)}"


def flow_text(value: Any) -> str:
    """A plain value, or a list or mapping of them, on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_scalar(key)}: {flow_text(entry)}' for key, entry in value.items())}}}"
    return _scalar(value)


def _scalar(value: str | float | bool | None) -> str:
    """Numbers so that they read back to the last bit; text in quotes unless no reader could take it for more."""
    if not isinstance(value, str):
        return json.dumps(value, allow_nan=False)
    if _PLAIN.fullmatch(value) and value.casefold() not in _WORDS:
        return value
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    """A character inside double quotes."""
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def recipe_sha256(recipe: Recipe) -> str:
    """SHA-256 over every value, whatever the layout or comments of the file it came from."""
    return values_sha256(to_mapping(recipe))


def values_sha256(values: Mapping[str, Any]) -> str:
    """The same of a recipe's plain values, as an event log holds them: also of one with keys of another version."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def flatten(value: Any, path: KeyPath = ()) -> dict[KeyPath, Any]:
    """Path of keys to value, for every value of a mapping; lists of plain values stay whole."""
    if isinstance(value, Mapping) and value:
        inner = [((*path, name), child) for name, child in value.items()]
    elif isinstance(value, list) and any(isinstance(child, Mapping) for child in value):
        inner = [((*path, index), child) for index, child in enumerate(value)]
    else:
        return {path: value}
    return {leaf_path: leaf for inner_path, child in inner for leaf_path, leaf in flatten(child, inner_path).items()}


def differences(before: Part, after: Part) -> dict[str, tuple[Any, Any]]:
    """Key to (before, after) for every value that is not the same in both; None where a key is in one only."""
    old, new = flatten(to_mapping(before)), flatten(to_mapping(after))
    return {key_text(key): (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}
