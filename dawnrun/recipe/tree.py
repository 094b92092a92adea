"""YAML 1.2 text to plain mappings, lists and text, with the place of everything; problems are collected.

Scalars stay text as they are spelled: the schema decides what is a number. Only a plain `null`, `~` or nothing is None.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from dawnrun.errors import Place, Problem
from dawnrun.recipe.describe import KeyPath, key_text

_NULLS = ("", "~", "null", "Null", "NULL")
_CORE_TAGS = ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge")
_MOST_NODES = 100_000


@dataclass(kw_only=True)
class Tree:
    """Values of one text, where each value and each key stands, and what is wrong with the text."""

    source: str
    fixed_place: Place | None = None
    value: Any = None
    places: dict[KeyPath, Place] = field(default_factory=dict)
    key_places: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)
    _count: int = 0

    def place(self, node: Node) -> Place:
        """Where a node starts; a value of `--set` is wherever that argument is."""
        mark = node.start_mark
        return self.fixed_place or Place(source=self.source, line=mark.line + 1, column=mark.column + 1)

    def complain(self, place: Place, path: KeyPath, message: str, *hints: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(place=place, key=key_text(path), message=message, hints=hints))

    def build(self, node: Node, path: KeyPath) -> Any:
        """The plain value of a node; notes the places of everything in it."""
        place = self.places[path] = self.place(node)
        self._count += 1
        if id(node) in self._open:
            self.complain(place, path, "an alias that contains itself")
            return None
        if self._count > _MOST_NODES:
            if self._count == _MOST_NODES + 1:
                self.complain(place, path, f"more than {_MOST_NODES:,} values, aliases counted each time")
            return None
        tag = str(node.tag)
        if tag.removeprefix("tag:yaml.org,2002:") not in _CORE_TAGS:
            self.complain(place, path, f"the tag {tag} means nothing here; leave it out")
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))
        assert isinstance(node, ScalarNode)
        return None if node.style is None and node.value in _NULLS else node.value

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        """A mapping: keys once each, and what it merges (`<<`) below its own."""
        lines: dict[str, Place] = {}
        merged: list[Node] = []
        own: list[tuple[str, Node, Node]] = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.complain(self.place(key), path, "a key must be a word, not a list or mapping")
                continue
            name, place = str(key.value), self.place(key)
            if name in lines:
                self.complain(place, (*path, name), f"given twice: first in line {lines[name].line or 1}, again here")
                own = [entry for entry in own if entry[0] != name]
            lines.setdefault(name, place)
            if name == "<<" and key.style is None:
                merged += value.value if isinstance(value, SequenceNode) else [value]
            else:
                own.append((name, key, value))
        return self._merge(merged, path) | self._entries(own, path)

    def _entries(self, entries: list[tuple[str, Node, Node]], path: KeyPath) -> dict[str, Any]:
        """The mapping's own keys."""
        result = {}
        for name, key, value in entries:
            inner = (*path, name)
            if inner in self.key_places:
                self.forget(inner)  # A merged value that is given here again.
            self.key_places[inner] = self.place(key)
            result[name] = self.build(value, inner)
        return result

    def _merge(self, sources: list[Node], path: KeyPath) -> dict[str, Any]:
        """What the mappings behind `<<` give together; earlier ones go before later ones."""
        result: dict[str, Any] = {}
        for source in reversed(sources):
            if not isinstance(source, MappingNode):
                self.complain(self.place(source), path, "<< takes a mapping or a list of mappings")
            elif id(source) in self._open:
                self.complain(self.place(source), path, "<< merges a mapping into itself")
            else:
                self._open.add(id(source))
                result |= self._mapping(source, path)
                self._open.discard(id(source))
        return result

    def forget(self, path: KeyPath) -> None:
        """Drop the places of a value that another one takes the place of."""
        for places in (self.places, self.key_places):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]


def parse(text: str, source: str, *, fixed_place: Place | None = None) -> Tree:
    """Read one YAML document. Syntax errors are the tree's only problem then, and its value is None."""
    tree = Tree(source=source, fixed_place=fixed_place)
    try:
        with warnings.catch_warnings():
            # An anchor may be used again for another value; ruamel warns of it.
            warnings.simplefilter("ignore")
            node = YAML().compose(text)
        tree.value = None if node is None else tree.build(node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(source=source, line=mark.line + 1, column=mark.column + 1) if mark else Place(source=source)
        tree.complain(fixed_place or place, (), *_syntax_message(error, text))
    except ReaderError as error:
        line, column = text.count("\n", 0, error.position) + 1, error.position - text.rfind("\n", 0, error.position)
        character = ord(text[error.position]) if error.position < len(text) else 0
        place = fixed_place or Place(source=source, line=line, column=column)
        tree.complain(place, (), f"the character U+{character:04X} is not allowed in YAML")
    except (YAMLError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else f"not valid YAML: {error}"
        tree.complain(fixed_place or Place(source=source), (), message.splitlines()[0])
    return tree


def _syntax_message(error: MarkedYAMLError, text: str) -> tuple[str, ...]:
    """What the YAML reader says, as one sentence, and a hint where the cause is known."""
    problem = str(error.problem or error.context or "unreadable")
    mark = error.problem_mark
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    if "\\t" in problem or line[: len(line) - len(line.lstrip())].count("\t"):
        return "not valid YAML: a tab in the indentation", "indent with spaces"
    if "another document" in problem:
        return "a second document starts here (---)", "one file holds one recipe or site"
    if "mapping values are not allowed" in problem:
        return f"not valid YAML: {problem}", "a value with ': ' in it needs quotes; is the indentation right?"
    return (f"not valid YAML: {problem}",)
