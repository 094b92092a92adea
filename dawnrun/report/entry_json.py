"""Reads the JSON of anyone's entry and judges its fields by the competition's form.

The form: README and tests/test_submissions.py of stanford-futuredata/dawn-bench-entries.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from dawnrun.report.defect import Defect, code_part
from dawnrun.report.entry import decode, line_end_defects, split_lines
from dawnrun.report.loose_json import Loose, read_loose

VERSION = "v1.0"
REQUIRED = ("version", "author", "framework", "model", "hardware", "timestamp")
TEXTS = (*REQUIRED, "authorEmail", "codeURL", "commitHash", "logFilename")
NUMBERS = ("costPerHour", "latency", "cost", "top5Accuracy")
NULLABLE = ("costPerHour", "cost")
KNOWN = (*TEXTS, *NUMBERS, "usedBlacklist", "misc")
INFERENCE_ONLY = ("latency", "cost", "top5Accuracy")
_ADDRESS = re.compile(r"[^@\s,;]+@[^@\s,;]+\.[^@\s,;]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonEntry:
    """A JSON's top-level fields and what is wrong with them; `doubtful` fields are not certain."""

    file: str
    fields: Mapping[str, object]
    lines: Mapping[str, int]
    doubtful: frozenset[str]
    is_inference: bool
    defects: tuple[Defect, ...]
    notes: tuple[str, ...]

    def text(self, key: str) -> str | None:
        """A field as text, None where it is missing or no text."""
        value = self.fields.get(key)
        return value if isinstance(value, str) and key not in self.doubtful else None

    def number(self, key: str) -> Decimal | None:
        """A field as a number, also where the number was written as text."""
        value = self.fields.get(key)
        if isinstance(value, str):
            found = re.fullmatch(r"\s*(?:\$|USD)?\s*([0-9]{1,12}(?:\.[0-9]{1,20})?)\s*", value)
            value = Decimal(found[1]) if found else None
        if not isinstance(value, Decimal) or key in self.doubtful:
            return None
        # Decimal text of 1e999999 would fill the memory; no price or latency is out here.
        return value if value == 0 or -30 <= value.adjusted() <= 12 else None


def read_json(data: bytes, file: str) -> JsonEntry:
    """The fields of an entry's JSON. Never raises: faults are defects, what cannot be read is missing."""
    text, defects = decode(data, file)
    lines = split_lines(text)
    defects += line_end_defects(lines, file)
    tabs = [line.number for line in lines if line.text.startswith("\t")]
    if tabs:
        defects.append(
            Defect(code="tab_indent", file=file, line=tabs[0], message=f"{len(tabs)} lines start with a tab")
        )
    loose = read_loose(text)
    for fault in loose.faults:
        message = f"column {fault.column}: {fault.message}"
        defects.append(Defect(code="invalid_json", file=file, line=fault.line, message=message))
    fields: dict[str, object] = loose.value if isinstance(loose.value, dict) else {}
    if not isinstance(loose.value, dict):
        defects.append(Defect(code="not_an_object", file=file, line=1, message="the JSON is not one object of fields"))
    is_inference = "latency" in fields or "top5Accuracy" in fields
    entry = JsonEntry(
        file=file,
        fields=fields,
        lines=loose.lines,
        doubtful=loose.doubtful,
        is_inference=is_inference,
        defects=(),
        notes=(),
    )
    if fields:
        defects += _repeated(loose, file) + _presence(entry) + _kinds(entry) + _contents(entry)
    notes = (
        [] if "authorEmail" in fields or not fields else [f"{file}: no authorEmail; the competition's test asks for it"]
    )
    return JsonEntry(
        file=file,
        fields=fields,
        lines=loose.lines,
        doubtful=loose.doubtful,
        is_inference=is_inference,
        defects=tuple(defects),
        notes=tuple(notes),
    )


def _repeated(loose: Loose, file: str) -> list[Defect]:
    """Names given twice in one object: readers keep the last value, or the first, or refuse."""
    if not loose.repeated:
        return []
    names = list(dict.fromkeys(name for name, _ in loose.repeated))
    message = f"{', '.join(names)}: given more than once in one object"
    code = f"duplicate_keys_{'+'.join(map(code_part, names))}"
    return [
        Defect(code=code, file=file, line=line, message=message)
        for line in sorted({line for _, line in loose.repeated})
    ]


def _presence(entry: JsonEntry) -> list[Defect]:
    """Fields that are missing, and fields that the form does not have."""
    wanted = (*REQUIRED, "latency", "top5Accuracy") if entry.is_inference else (*REQUIRED, "usedBlacklist")
    defects = [
        Defect(code=f"no_{key}", file=entry.file, line=1, message=f"{key} is missing")
        for key in wanted
        if key not in entry.fields
    ]
    extra = sorted((key for key in entry.fields if key not in KNOWN), key=str)
    if extra:
        line = min(entry.lines[key] for key in extra)
        message = f"{', '.join(extra)}: not fields of the form; they belong in misc"
        code = f"extra_top_level_{'+'.join(map(code_part, extra))}"
        defects.append(Defect(code=code, file=entry.file, line=line, message=message))
    return defects


def _kinds(entry: JsonEntry) -> list[Defect]:
    """Fields of another type than the form's."""
    wanted: dict[str, tuple[type, str]] = {
        **dict.fromkeys(TEXTS, (str, "a string")),
        **dict.fromkeys(NUMBERS, (Decimal, "a number")),
        "usedBlacklist": (bool, "true or false without quotes"),
        "misc": (dict, "an object"),
    }
    defects = []
    for key, value in entry.fields.items():
        if (
            key not in wanted
            or key in entry.doubtful
            or isinstance(value, wanted[key][0])
            or (value is None and key in NULLABLE)
        ):
            continue
        kind = {str: "string", Decimal: "number", bool: "boolean", dict: "object", list: "list"}.get(
            type(value), "null"
        )
        message = f"{key} is a {kind}; the form has {wanted[key][1]}"
        defects.append(Defect(code=f"{key}_is_{kind}", file=entry.file, line=entry.lines[key], message=message))
    return defects


def _contents(entry: JsonEntry) -> list[Defect]:
    """Texts that do not say what the form asks for."""
    found = {
        "version": _version(entry.text("version")),
        "timestamp": _timestamp(entry.text("timestamp")),
        "authorEmail": judge_email(entry.text("authorEmail")),
        "codeURL": judge_url(entry.text("codeURL")),
        **{key: _empty(entry.text(key), key) for key in ("author", "framework", "model", "hardware")},
    }
    return [
        Defect(code=code, file=entry.file, line=entry.lines[key], message=message)
        for key, (code, message) in found.items()
        if code
    ]


_FINE = ("", "")


def _version(text: str | None) -> tuple[str, str]:
    if text is None or text == VERSION:
        return _FINE
    return f"version_{code_part(text)}", f"version {text}; the competition takes {VERSION} only"


def _timestamp(text: str | None) -> tuple[str, str]:
    if text is None:
        return _FINE
    try:
        date = datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        return f"timestamp_{code_part(text)}_not_a_date", f"{text}: not a date YYYY-MM-DD"
    if text == date.isoformat():
        return _FINE
    return f"timestamp_{code_part(text)}_not_zero_padded", f"{text} should read {date.isoformat()}"


def judge_email(text: str | None) -> tuple[str, str]:
    """Code and message of what is wrong with an author's address; two empty texts if nothing."""
    if text is None or _ADDRESS.fullmatch(text.strip()):
        return _FINE
    for mark, name in ((",", "comma"), (";", "semicolon")):
        if mark in text and all(_ADDRESS.fullmatch(part.strip()) for part in text.split(mark)):
            return f"authorEmail_list_{name}", f"several addresses with a {name} between; the form has one"
    return "authorEmail_not_an_address", "not an e-mail address"


def judge_url(text: str | None) -> tuple[str, str]:
    """The same for the address of the code."""
    if text is None or re.match(r"https?://[^\s/]+\.", text):
        return _FINE
    return "codeURL_not_a_url", f"{text[:60]!r} is not an http address"


def _empty(text: str | None, key: str) -> tuple[str, str]:
    return (f"{key}_is_empty", f"{key} says nothing") if text is not None and not text.strip() else _FINE
