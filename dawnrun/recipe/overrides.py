"""`--set key=value`: one value of a recipe changed from the command line."""

import re
from typing import Any

from dawnrun.errors import Place
from dawnrun.recipe.describe import KeyPath, key_text
from dawnrun.recipe.tree import Tree, parse

_PART = re.compile(r"\.?([^.\[\]=]+)|\[([0-9]+)\]|\[\"([^\"]*)\"\]")


def apply_override(tree: Tree, argument: str) -> None:
    """Put `key=value` into the tree; what is wrong with it becomes a problem of the tree at `--set`."""
    place = Place(source=f"--set {argument}")
    key, equals, text = argument.partition("=")
    path = _parse_key(key.strip())
    if not equals or path is None:
        tree.complain(place, (), "write key=value, for example phases[0].epochs=3")
        return
    value = parse(text, tree.source, fixed_place=place)
    if value.problems:
        tree.problems += value.problems
        return
    _put(tree, path, value, place)


def _parse_key(text: str) -> KeyPath | None:
    """`phases[1].epochs` as ("phases", 1, "epochs"); None if it is no key. A key with dots goes into `["..."]`."""
    path: KeyPath = ()
    end = 0
    while end < len(text):
        match = _PART.match(text, end)
        if match is None or (not path and (match[1] is None or text.startswith("."))):
            return None
        part = match[1] if match[1] is not None else match[3]
        path = (*path, int(match[2]) if part is None else part)
        end = match.end()
    return path or None


def _put(tree: Tree, path: KeyPath, new: Tree, place: Place) -> None:
    """Walk to the last container, making mappings that are missing, and set the value there."""
    container: Any = tree.value
    walked: KeyPath = ()
    for depth, part in enumerate(path):
        if isinstance(container, dict) and isinstance(part, int) and isinstance(container.get("segments"), list):
            container, walked = container["segments"], (*walked, "segments")
        if part == "segments" and isinstance(container, list):
            continue  # A curve written as a bare list.
        if not _can_hold(tree, container, walked, part, place):
            return
        walked = (*walked, part)
        if depth == len(path) - 1:
            container[part] = new.value
            tree.forget(walked)
            tree.key_places[walked] = place
            tree.places |= {(*walked, *inner): place for inner in ((), *new.places)}
        elif isinstance(container, dict) and container.get(str(part)) is None:
            following = path[depth + 1]
            if isinstance(following, int):
                whole = key_text(walked)
                tree.complain(
                    place,
                    walked,
                    "is not written in the file, so it has no entries to change",
                    f"set it whole: --set '{whole}=[...]'",
                )
                return
            container[part] = {}
            tree.key_places[walked] = tree.places[walked] = place
            container = container[part]
        else:
            container = container[part]


def _can_hold(tree: Tree, container: Any, walked: KeyPath, part: str | int, place: Place) -> bool:
    """Whether `container` has, or can get, an entry `part`; if not, a problem says why."""
    if isinstance(container, list) and isinstance(part, int):
        if part < len(container):
            return True
        number = "1 entry" if len(container) == 1 else f"{len(container)} entries"
        last = f", the last is {key_text((*walked, len(container) - 1))}" if container else ""
        tree.complain(place, (*walked, part), f"no such entry: the file has {number}{last}")
    elif isinstance(container, list):
        tree.complain(place, walked, f"is a list here: name one of its entries, as in {key_text((*walked, 0, part))}")
    elif isinstance(container, dict) and isinstance(part, str):
        return True
    elif isinstance(container, dict):
        tree.complain(place, walked, f"is a mapping here: it has keys, no entry [{part}]")
    else:
        tree.complain(place, walked, f"is a single value here ({container}), so it has no {part}: set it whole")
    return False
