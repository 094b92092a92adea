"""Reads JSON as people write it by hand, and names each departure from JSON with its line.

The standard parser stops at the first fault and knows no lines for keys; an audit needs both. Whether a text is
JSON at all is still the standard parser's to say: where it accepts, no fault is reported here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NoReturn

MAX_DEPTH = 100
_TOKEN = re.compile(
    r"""(?P<newline>\n|\r\n?)|(?P<space>[ \t\ufeff]+)|(?P<comment>\#[^\r\n]*|//[^\r\n]*)
      |(?P<string>"(?:[^"\\\r\n]|\\.)*")|(?P<quoted>'(?:[^'\\\r\n]|\\.)*')
      |(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)
      |(?P<mark>[{}\[\]:,])|(?P<other>.)""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A piece of text with its line and column, both from 1."""

    kind: str
    text: str
    line: int
    column: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A departure from JSON."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Loose:
    """What a text says. `lines`: line of each top-level key; `repeated`: key and line of every later occurrence in
    one object; `doubtful`: top-level keys that were given different values, or on whose line something was skipped.
    """

    value: object
    lines: Mapping[str, int]
    repeated: tuple[tuple[str, int], ...]
    doubtful: frozenset[str]
    faults: tuple[Fault, ...]


def read_loose(text: str) -> Loose:
    """Everything that can be read of a JSON text. Numbers are Decimal. Never raises."""
    reader = _Reader(text)
    value = reader.document()
    faults = reader.faults
    try:
        json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse, parse_int=Decimal, parse_float=Decimal)
    except json.JSONDecodeError as error:
        faults = faults or [Fault(line=error.lineno, column=error.colno, message=error.msg)]
    except (ValueError, RecursionError, ArithmeticError) as error:
        faults = faults or [Fault(line=1, column=1, message=str(error))]
    else:
        faults = []
    return Loose(
        value=value,
        lines=reader.lines,
        repeated=tuple(reader.repeated),
        doubtful=frozenset(reader.conflicting | {key for key, line in reader.lines.items() if line in reader.garbled}),
        faults=tuple(faults),
    )


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _tokens(text: str) -> Iterator[Token]:
    """Tokens without white space, and one of kind `end`."""
    line, start = 1, 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind == "newline":
            line, start = line + 1, match.end()
        elif kind != "space":
            yield Token(kind=kind, text=match.group(), line=line, column=match.start() - start + 1)
    yield Token(kind="end", text="", line=line, column=len(text) - start + 1)


@dataclass(slots=True)
class _Reader:
    """One pass over the tokens; on a fault it goes on at the next comma, closing bracket or line."""

    text: str
    faults: list[Fault] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    repeated: list[tuple[str, int]] = field(default_factory=list)
    conflicting: set[str] = field(default_factory=set)
    garbled: set[int] = field(default_factory=set)
    _tokens: list[Token] = field(default_factory=list)
    _place: int = 0
    _comma: Token | None = None

    def document(self) -> object:
        """The whole text's value."""
        for token in _tokens(self.text):
            if token.kind == "comment":
                self._fault(token, "a comment; JSON has none")
            else:
                self._tokens.append(token)
        value = self._value(0)
        if self._next.kind != "end":
            self._fault(self._next, "more text after the end of the value")
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _fault(self, token: Token, message: str) -> None:
        if not self.faults or self.faults[-1].line != token.line:
            self.faults.append(Fault(line=token.line, column=token.column, message=message))

    def _skip(self) -> None:
        """Past what cannot be read: to a comma or bracket that is not part of it, or to the next line."""
        line, opened = self._next.line, 0
        while self._next.kind != "end" and self._next.line == line:
            text = self._next.text
            if not opened and text in (",", "}", "]"):
                return
            opened += (text in ("{", "[")) - (text in ("}", "]"))
            self.garbled.add(line)
            self._take()

    def _value(self, depth: int) -> object:
        token = self._next
        if depth > MAX_DEPTH:
            self._fault(token, f"nested more than {MAX_DEPTH} deep")
            self._place = len(self._tokens) - 1
            return None
        if token.text == "{" and token.kind == "mark":
            return self._object(depth)
        if token.text == "[" and token.kind == "mark":
            return self._array(depth)
        return self._scalar()

    def _scalar(self) -> object:
        token = self._next
        if token.kind in ("string", "quoted"):
            return self._string()
        if token.kind == "number":
            return Decimal(self._take().text)
        if token.kind == "word":
            self._take()
            if token.text not in _WORDS:
                self._fault(token, f"{token.text} is not JSON")
            return _WORDS.get(token.text, _WORDS.get(token.text.casefold()))
        self._fault(token, "a value is missing")
        if token.text not in (",", "}", "]"):
            self._skip()
        return None

    def _string(self) -> str:
        token = self._take()
        inner = token.text
        if token.kind == "quoted":
            self._fault(token, "single quotes; JSON has double quotes")
            inner = json.dumps(token.text[1:-1])
        try:
            return str(json.loads(inner))
        except ValueError:
            self._fault(token, "a character or escape that JSON strings do not have")
            return token.text[1:-1]

    def _object(self, depth: int) -> dict[str, object]:
        self._take()
        found: dict[str, object] = {}
        while not self._closed("}"):
            key = self._next
            if key.kind not in ("string", "quoted", "word"):
                self._fault(key, "a name in double quotes is missing")
                self._skip()
                self._separator("}")
                continue
            name = self._string() if key.kind != "word" else self._take().text
            if key.kind == "word":
                self._fault(key, f"{name}: a name without quotes")
            self._colon()
            self._add(found, name, self._value(depth + 1), key, depth)
            self._separator("}")
        return found

    def _add(self, found: dict[str, object], name: str, value: object, key: Token, depth: int) -> None:
        if name in found:
            self.repeated.append((name, key.line))
            if depth == 0 and found[name] != value:
                self.conflicting.add(name)
        found[name] = value
        if depth == 0:
            self.lines[name] = key.line

    def _array(self, depth: int) -> list[object]:
        self._take()
        found = []
        while not self._closed("]"):
            found.append(self._value(depth + 1))
            self._separator("]")
        return found

    def _colon(self) -> None:
        if self._next.text == ":":
            self._take()
        else:
            self._fault(self._next, "a colon is missing after the name")
            if self._next.kind == "other" or self._next.text == "=":
                self._take()

    def _closed(self, bracket: str) -> bool:
        """Whether the object or array ends here; its bracket is taken."""
        token = self._next
        if token.text == bracket and token.kind == "mark":
            if self._comma:
                self._fault(token, f"the comma before {bracket} (line {self._comma.line}) must go")
            self._comma = None
            self._take()
            return True
        self._comma = None
        if token.kind == "end" or (token.kind == "mark" and token.text in "}]"):
            self._fault(token, f"{bracket} is missing")
            return True
        return False

    def _separator(self, bracket: str) -> None:
        """The comma between members; a missing one is named and taken as there."""
        self._comma = None
        token = self._next
        if token.text == "," and token.kind == "mark":
            self._comma = self._take()
        elif token.kind != "end" and token.text not in ("}", "]"):
            self._fault(token, "a comma is missing")
            if token.kind != "string" and not (bracket == "]" and token.text in ("{", "[")):
                self._skip()
                self._separator(bracket)
