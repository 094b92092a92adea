"""The schema in words: what a field allows, which keys there are and where a misplaced one belongs."""

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from dawnrun.recipe.fields import NAME_PATTERN, Part
from dawnrun.recipe.method import IMPORT_PATTERN
from dawnrun.recipe.pieces import Curve
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import nearest

KeyPath = tuple[str | int, ...]
_ODD_NAME = re.compile(r"[.\[\]=\"]|^$")

ALSO_CALLED = {
    "learning_rate": "lr",
    "lrs": "lr",
    "mom": "momentum",
    "num_epochs": "epochs",
    "batch_size": "global_batch_size",
    "bs": "global_batch_size",
    "size": "image_size",
    "resolution": "image_size",
    "min_scale": "min_area_fraction",
    "wd": "weight_decay",
    "smoothing": "label_smoothing",
    "amp": "precision",
    "dtype": "precision",
    "gpus_per_node": "processes_per_node",
    "nproc_per_node": "processes_per_node",
    "num_nodes": "nodes",
    "nnodes": "nodes",
    "world_size": "processes_per_node",
    "price": "usd_per_node_hour",
    "output_dir": "run_root",
    "data_dir": "data_root",
}
"""What other programs call our keys."""


def key_text(path: KeyPath) -> str:
    """`phases[1].lr`, as `--set` takes it: a name with dots or the like in brackets and quotes.

    The `segments` and `constant` of a curve are left out, as recipes do.
    """
    text = ""
    for part, following in zip_longest(path, path[1:]):
        if isinstance(part, int):
            text += f"[{part}]"
        elif (part == "segments" and isinstance(following, int)) or (part == "constant" and following is None):
            continue
        elif _ODD_NAME.search(part) or not part.isprintable():
            text += f"[{json.dumps(part)}]"
        else:
            text += f".{part}" if text else part
    return text


def children(annotation: Any) -> Mapping[str, FieldInfo]:
    """The keys of a part of the schema, seen through Optional, lists and curves; empty for a plain value."""
    for option in options(annotation):
        if isinstance(option, type) and issubclass(option, Part):
            return {field.alias or name: field for name, field in option.model_fields.items()}
        if get_origin(option) is tuple:
            return children(get_args(option)[0])
    return {}


def options(annotation: Any) -> list[Any]:
    """The alternatives of a union, None left out; a type that is no union alone."""
    if get_origin(annotation) is Annotated:
        return options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [option for option in get_args(annotation) if option is not type(None)]
    return [annotation]


def is_list(annotation: Any) -> bool:
    """Whether a field is a list of parts or values."""
    return any(get_origin(option) is tuple for option in options(annotation))


def field_at(kind: type[Part], path: KeyPath) -> tuple[Any, Sequence[Any]]:
    """Type and constraints of the field at `path`; (Any, ()) if the schema has none there."""
    annotation: Any = kind
    constraints: Sequence[Any] = ()
    for part in path:
        annotation, constraints = _step(annotation, part)
    return annotation, constraints


def description(kind: type[Part], path: KeyPath) -> str:
    """The schema's one line about a value; of what is around it where it has none of its own."""
    found = ""
    for depth, part in enumerate(path):
        field = children(field_at(kind, path[:depth])[0]).get(str(part))
        if field and field.description and part != "constant":
            found = field.description
    return found


def _step(annotation: Any, part: str | int) -> tuple[Any, Sequence[Any]]:
    """One key or index further down."""
    for option in options(annotation):
        if option is Curve and isinstance(part, int):
            return _step(Curve.model_fields["segments"].annotation, part)
        if isinstance(option, type) and issubclass(option, Part) and part in children(option):
            field = children(option)[str(part)]
            return field.annotation, field.metadata
        if get_origin(option) is tuple and isinstance(part, int):
            members = [member for member in get_args(option) if member is not Ellipsis]
            return members[min(part, len(members) - 1)], ()
        if get_origin(option) is Mapping or get_origin(option) is dict:
            return get_args(option)[1], ()
    return Any, ()


def choices(annotation: Any) -> list[str]:
    """The words that a field with fixed words takes; empty for others."""
    literals = [option for option in options(annotation) if get_origin(option) is Literal]
    return [str(word) for literal in literals for word in get_args(literal)]


def allowed(annotation: Any, constraints: Sequence[Any] = ()) -> str:
    """What a value of this type may be, in words: `a number above 0 or dynamic`."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        flat = [item for extra in more for item in (extra.metadata if isinstance(extra, FieldInfo) else [extra])]
        return allowed(inner, [*constraints, *flat])
    alternatives = options(annotation)
    if len(alternatives) > 1 or alternatives[0] is not annotation:
        return " or ".join(allowed(option, constraints) for option in alternatives)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return arguments[0] if len(arguments) == 1 else "one of " + ", ".join(map(str, arguments))
    if origin is tuple:
        member = allowed(arguments[0]).replace("a mapping", "mappings", 1)
        return f"a list of {member}" if Ellipsis in arguments else f"a list of {len(arguments)} numbers"
    if origin is Mapping:
        return "a mapping of names to text"
    if annotation is Curve:
        return "a number, or a list of pieces {epochs: [first, last], start, end, shape}"
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return f"a mapping with the keys {', '.join(children(annotation))}" if annotation.model_fields else "{}"
    return _scalar(annotation, constraints)


def _scalar(annotation: Any, constraints: Sequence[Any]) -> str:
    """A plain value with its bounds."""
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}
    bounds = []
    # Lower bounds first, in whatever order they were declared.
    for item in sorted(constraints, key=lambda item: isinstance(item, annotated_types.Lt | annotated_types.Le)):
        if isinstance(item, annotated_types.Ge):
            bounds.append(f"of {item.ge} or more")
        elif isinstance(item, annotated_types.Gt):
            bounds.append(f"above {item.gt}")
        elif isinstance(item, annotated_types.Le):
            bounds.append(f"at most {item.le}")
        elif isinstance(item, annotated_types.Lt):
            bounds.append("below 2^63" if item.lt == 2**63 else f"below {item.lt}")
        elif getattr(item, "pattern", None) == NAME_PATTERN:
            bounds.append("of letters, digits, '.', '_' and '-' that starts with a letter or digit")
        elif getattr(item, "pattern", None) == IMPORT_PATTERN:
            bounds.append("like package.module:function")
    return " ".join([names.get(annotation, "a value"), " and ".join(bounds)]).rstrip()


def known_keys(annotation: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(key, full key with `[]` for any entry) of everything below a part."""
    for name, field in children(annotation).items():
        path = f"{prefix}{name}"
        yield name, path
        if field.annotation is not Curve:
            yield from known_keys(field.annotation, f"{path}[]." if is_list(field.annotation) else f"{path}.")


def unknown_key_hints(kind: type[Part], section: KeyPath, name: str) -> tuple[str, ...]:
    """What is allowed in a section, and where or how the unknown key was probably meant."""
    here = list(children(field_at(kind, section)[0]))
    elsewhere: dict[str, list[str]] = {}
    for known, path in known_keys(kind):
        elsewhere.setdefault(known, []).append(path)
    meant = nearest(name, [*here, *ALSO_CALLED]) or nearest(name, elsewhere)
    meant = ALSO_CALLED.get(meant or "", meant)
    listing = f"allowed here: {', '.join(here)}" if here else "no key is allowed here"
    if name in ALSO_CALLED and meant in here:
        return (listing, f"did you mean {meant}?")
    if name in elsewhere:
        return (
            listing,
            f"{name} belongs elsewhere: {' or '.join(p if '.' in p else f'{p}, at the top level' for p in elsewhere[name])}",
        )
    if meant in here:
        return (listing, f"did you mean {meant}?")
    if meant in elsewhere:
        return (listing, f"did you mean {' or '.join(elsewhere[meant])}?")
    other, where = (Site, "the site file (--site)") if kind is Recipe else (Recipe, "the recipe")
    others = dict(known_keys(other))
    if name in others or meant in others:
        return (listing, f"{others.get(name) or others[str(meant)]} belongs in {where}")
    return (listing,)
