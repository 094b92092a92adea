"""Models back to text: every value, in a form that reads back to an equal model."""

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from dawnrun.recipe.describe import KeyPath, key_text
from dawnrun.recipe.fields import Part
from dawnrun.recipe.schema import Recipe


def to_mapping(model: Part) -> dict[str, Any]:
    """Every value of a model as plain JSON values; paths are text, tuples lists."""
    return model.model_dump(mode="json")


def resolved_text(model: Part) -> str:
    """Every value of a model as YAML; `read_text` makes an equal model of it."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel declares it as None
    yaml.allow_unicode = True
    yaml.width = 1 << 20
    stream = io.StringIO()
    yaml.dump(to_mapping(model), stream)
    return stream.getvalue()


def recipe_sha256(recipe: Recipe) -> str:
    """SHA-256 over every value, whatever the layout or comments of the file it came from."""
    text = json.dumps(to_mapping(recipe), sort_keys=True, separators=(",", ":"), allow_nan=False)
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
