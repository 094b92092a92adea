"""Recipe and site files to frozen models: every problem at its line, `--set` applied, origins kept."""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from dawnrun.errors import Place, Problem, RecipeError, UsageError
from dawnrun.recipe.builtin import find
from dawnrun.recipe.check import check_recipe
from dawnrun.recipe.describe import KeyPath, allowed, children, choices, field_at, key_text, unknown_key_hints
from dawnrun.recipe.dump import flatten, to_mapping
from dawnrun.recipe.fields import Part
from dawnrun.recipe.mend import mended, written
from dawnrun.recipe.overrides import apply_override
from dawnrun.recipe.schema import Recipe
from dawnrun.recipe.tree import Tree, parse
from dawnrun.text import nearest

T = TypeVar("T", bound=Part)
_MOST_BYTES = 1 << 20
PLACES = "places.json"
"""Beside a resolved recipe: where its values were written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document(Generic[T]):
    """A model as it was read: its value, its text and where each key is written (`places["phases[1].lr"]`)."""

    value: T
    source: str
    text: str
    places: Mapping[str, Place]

    def problem(self, key: str, message: str, hints: Sequence[str] = ()) -> Problem:
        """A problem at the line of `key`, or of the nearest part around it that is written."""
        return self.locate(Problem(key=key, message=message, hints=tuple(hints)))

    def locate(self, problem: Problem) -> Problem:
        """`problem` with its place."""
        key = problem.key
        while key and key not in self.places:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return replace(problem, place=self.places.get(key, Place(source=self.source)))

    def places_text(self) -> str:
        """Where each key is written, as JSON: for a process that reads the resolved values and is to name the user's lines."""
        return json.dumps({key: [place.source, place.line, place.column] for key, place in self.places.items()})

    @contextmanager
    def told(self) -> Iterator[None]:
        """What is found wrong with a key inside, where the document is not at hand, is told at the key's place."""
        try:
            yield
        except RecipeError as error:
            raise RecipeError([self.locate(problem) for problem in error.problems], subject=self.source) from error

    @property
    def origins(self) -> Mapping[str, str]:
        """For every value of the model where it comes from: `path:line`, `--set ...` or `default`."""
        return {key_text(path): self._origin(key_text(path)) for path in flatten(to_mapping(self.value))}

    def _origin(self, key: str) -> str:
        """Where one value comes from; a list that counts as one value may be written over several keys."""
        inside = [place for known, place in self.places.items() if known.startswith((f"{key}[", f"{key}."))]
        place = self.places.get(key) or next(iter(inside), None)
        if place is None:
            return "default"
        return place.source if place.line is None else f"{place.source}:{place.line}"


def read(source: Path | str | None, kind: type[T], overrides: Sequence[str] = ()) -> Document[T]:
    """Read a recipe or site, apply `--set` overrides, check everything.

    `source`: a path, a name or path as typed by the user (a `str`; shipped names are found), or None for all
    defaults. Raises UsageError if there is no such file, RecipeError with all problems in file order otherwise.
    """
    path = find(source, kind) if isinstance(source, str) else source
    name = "defaults" if path is None else str(path)
    text = "" if path is None else _read_text(path)
    return read_text(text, kind, overrides, source=name, may_be_empty=path is None)


def read_resolved(path: Path) -> Document[Recipe]:
    """The resolved recipe of an attempt, with the places at which the user wrote its values where they were kept."""
    document, kept = read(path, Recipe), path.with_name(PLACES)
    if not kept.is_file():
        return document
    places = {
        key: Place(source=source, line=line, column=column)
        for key, (source, line, column) in json.loads(kept.read_text(encoding="utf-8")).items()
    }
    return replace(document, places=places, source=places[""].source if "" in places else document.source)


def read_text(
    text: str, kind: type[T], overrides: Sequence[str] = (), *, source: str, may_be_empty: bool = False
) -> Document[T]:
    """As `read`, from text; `source` names it in messages."""
    tree = parse(text, source)
    if tree.value is None and not tree.problems and not may_be_empty:
        tree.complain(Place(source=source), (), f"is empty; a {kind.__name__.lower()} has {allowed(kind)}")
    elif not isinstance(tree.value, dict) and tree.value is not None:
        tree.complain(tree.places[()], (), f"must be {allowed(kind)}, not {_seen(tree.value)}")
    if tree.problems and not isinstance(tree.value, dict):
        raise _error(tree)
    tree.value = tree.value or {}
    for argument in overrides:
        apply_override(tree, argument)
    places = {key_text(path): place for path, place in tree.places.items()}
    try:
        value = kind.model_validate(tree.value)
    except ValidationError as error:
        doubtful = {problem.key for problem in tree.problems}
        tree.problems += _translate(error, tree, kind)
        mend = mended(tree.value) if kind is Recipe else None
        if mend is not None:
            recipe, unknown = mend
            tree.problems += _whole(Document(value=recipe, source=source, text=text, places=places), doubtful | unknown)
        raise _error(tree) from None
    document = Document(value=value, source=source, text=text, places=places)
    if isinstance(value, Recipe):
        tree.problems += _whole(document, {problem.key for problem in tree.problems})
    if tree.problems:
        raise _error(tree)
    return document


def _whole(document: Document[Any], unknown: Set[str]) -> list[Problem]:
    """What only the whole recipe shows, as far as it does not rest on the `unknown` keys."""
    return [document.locate(problem) for problem in check_recipe(document.value, unknown)]


def _error(tree: Tree) -> RecipeError:
    """All problems of a file, each once, in the order of their places, `--set` last."""

    def order(problem: Problem) -> tuple[bool, int, int]:
        line = problem.place.line if problem.place else None
        return line is None, line or 0, (problem.place.column or 0) if problem.place else 0

    return RecipeError(sorted(dict.fromkeys(tree.problems), key=order), subject=tree.source)


def _read_text(path: Path) -> str:
    """The text of a file; every way in which it cannot be had is one sentence."""
    try:
        if not (path.is_file() or path.is_dir() or not path.exists() or _is_stream(path)):
            raise UsageError(f"{path}: is no regular file; a recipe or site is read from a file or /dev/stdin")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder; name a YAML file in it") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path}: is larger than 1 MiB; a recipe or site is a short text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        place = Place(source=str(path), line=before.count(b"\n") + 1, column=column)
        message = f"not UTF-8 text: byte 0x{content[error.start]:02x}"
        raise RecipeError([Problem(place=place, message=message)], subject=str(path)) from None


def _is_stream(path: Path) -> bool:
    """What the shell or the user handed over open: /dev/stdin, `<(command)`. Other pipes could be waited for in vain."""
    return str(path) == "/dev/stdin" or str(path).startswith(("/dev/fd/", "/proc/self/fd/"))


def _translate(error: ValidationError, tree: Tree, kind: type[Part]) -> list[Problem]:
    """The findings of pydantic as sentences about the text; one for each key."""
    found: dict[KeyPath, Problem] = {}
    for detail in error.errors(include_url=False, include_context=True):
        path, value = written(tree.value, detail["loc"])
        missing = detail["type"] == "missing" and isinstance(detail["loc"][-1], str)
        if missing:
            path = (*path, detail["loc"][-1])
        # pydantic counts a list's valid entries only, so it calls a list with a bad entry too short.
        if path in found or (detail["type"] == "too_short" and value):
            continue
        message, hints = _sentence(detail["type"], detail["msg"], path, value, kind)
        places = tree.key_places if detail["type"] == "extra_forbidden" else tree.places
        found[path] = Problem(
            place=_nearest_place(places, tree, path), key=key_text(path), message=message, hints=hints
        )
    return list(found.values())


def _sentence(type_: str, text: str, path: KeyPath, value: Any, kind: type[Part]) -> tuple[str, tuple[str, ...]]:
    """(message, hints) for one finding of pydantic."""
    annotation, constraints = field_at(kind, path)
    words = allowed(annotation, constraints)
    if type_ == "extra_forbidden":
        return "unknown key", unknown_key_hints(kind, path[:-1], str(path[-1]))
    if type_ == "missing" and isinstance(path[-1], str) and not isinstance(value, list):
        field = children(field_at(kind, path[:-1])[0]).get(str(path[-1]))
        return f"is missing: {words}", (field.description,) if field and field.description else ()
    if type_ == "value_error":
        return text.removeprefix("Value error, "), ()
    if value is None and words.startswith("text"):
        return f"must be {words}, not null", ("write it in quotes if it is meant as text",)
    near = nearest(value, choices(annotation)) if isinstance(value, str) else None
    return f"must be {words}, not {_seen(value)}", (f"did you mean {near}?",) if near else ()


def _seen(value: Any) -> str:
    """A value as it is named in a message."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "null"
    return value if value and len(value) <= 60 and value.isprintable() else f"{value[:60]!r}"


def _nearest_place(places: Mapping[KeyPath, Place], tree: Tree, path: KeyPath) -> Place:
    """The place of a key or of what is around it."""
    while path and path not in places:
        path, places = path[:-1], tree.places
    return places.get(path) or Place(source=tree.source)
