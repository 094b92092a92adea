"""The JSON of an entry: faults with their lines, fields by the form."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawnrun.report.entry_json import JsonEntry, read_json
from dawnrun.report.loose_json import read_loose

GOOD = {
    "version": "v1.0",
    "author": "a team",
    "authorEmail": "team@example.invalid",
    "framework": "PyTorch",
    "codeURL": "https://example.invalid/code",
    "model": "ResNet-50",
    "hardware": "8 V100",
    "costPerHour": 24.48,
    "timestamp": "2020-01-02",
    "usedBlacklist": True,
    "misc": {},
}
LINES = {key: number for number, key in enumerate(GOOD, 2)}


def of(changed: dict[str, object], *without: str) -> JsonEntry:
    fields = {key: value for key, value in {**GOOD, **changed}.items() if key not in without}
    return read_json((json.dumps(fields, indent=2) + "\n").encode(), "e.json")


def places(entry: JsonEntry) -> list[tuple[str, int]]:
    return [(defect.code, defect.line) for defect in entry.defects]


def test_a_good_entry_has_no_defect() -> None:
    assert places(of({})) == []


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("version", "v2.0", "version_v2.0"),
        ("version", 1.0, "version_is_number"),
        ("usedBlacklist", "true", "usedBlacklist_is_string"),
        ("misc", "none", "misc_is_string"),
        ("costPerHour", "24.48", "costPerHour_is_string"),
        ("timestamp", "2018-4-18", "timestamp_2018-4-18_not_zero_padded"),
        ("timestamp", "18 April 2018", "timestamp_18_April_2018_not_a_date"),
        ("timestamp", None, "timestamp_is_null"),
        ("authorEmail", "", "authorEmail_not_an_address"),
        ("authorEmail", "a@example.invalid, b@example.invalid", "authorEmail_list_comma"),
        ("authorEmail", "a@example.invalid; b@example.invalid", "authorEmail_list_semicolon"),
        ("codeURL", "will be uploaded soon", "codeURL_not_a_url"),
        ("author", " ", "author_is_empty"),
    ],
)
def test_each_field_by_the_form(key: str, value: object, code: str) -> None:
    assert places(of({key: value})) == [(code, LINES[key])]


def test_a_number_in_quotes_is_named_and_read() -> None:
    assert of({"costPerHour": "$24.48"}).number("costPerHour") == Decimal("24.48")
    assert of({"costPerHour": "about 24"}).number("costPerHour") is None


def test_missing_and_extra_fields() -> None:
    assert places(of({"momentum": 0.9}, "usedBlacklist", "author")) == [
        ("no_author", 1),
        ("no_usedBlacklist", 1),
        ("extra_top_level_momentum", 11),
    ]
    assert of({}, "authorEmail").defects == ()
    assert of({}, "authorEmail").notes


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{\n"a": 1,\n}\n', [3]),
        ('{\n"a": [1,\n2,\n]\n}\n', [4]),
        ('{\n"a": 1\n"b": 2\n}\n', [3]),
        ("{\n'a': 1\n}\n", [2]),
        ('{\n"a" 1\n}\n', [2]),
        ('{\n# why\n"a": 1,\n// and\n"b": 2\n}\n', [2, 4]),
        ('{\n"a": NaN\n}\n', [2]),
        ('{\n"a": True\n}\n', [2]),
        ('{\n"a": ""b",\n"c": 1,\n}\n', [2, 4]),
        ('{\n"a": 1\n', [3]),
        ('{\n"a": 1\n} x\n', [3]),
        ("", [1]),
    ],
)
def test_every_fault_is_named_with_its_line(text: str, lines: list[int]) -> None:
    assert [fault.line for fault in read_loose(text).faults] == lines


def test_what_surrounds_a_fault_is_read() -> None:
    found = read_loose('{"a": ""b",\n"costPerHour": 24.48,\n}')
    assert isinstance(found.value, dict)
    assert found.value["costPerHour"] == Decimal("24.48")
    assert found.doubtful == {"a"}


def test_repeated_names() -> None:
    found = read_json(b'{\n"misc": {\n"a": 1,\n"a": 1\n},\n"misc": {}\n}\n', "e.json")
    assert [place for place in places(found) if place[0].startswith("duplicate")] == [
        ("duplicate_keys_a+misc", 4),
        ("duplicate_keys_a+misc", 6),
    ]


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(NESTED, st.booleans(), st.booleans())
def test_json_is_read_as_the_standard_parser_does(value: object, indent: bool, ascii_only: bool) -> None:
    text = json.dumps(value, indent=2 if indent else None, ensure_ascii=ascii_only)
    found = read_loose(text)
    assert found.faults == ()
    assert found.value == json.loads(text, parse_int=Decimal, parse_float=Decimal)


@settings(max_examples=150, deadline=None)
@given(NESTED, st.data())
def test_a_fault_is_found_exactly_where_the_standard_parser_refuses(value: object, data: st.DataObject) -> None:
    text = json.dumps(value, indent=2)
    at = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:at]
        + data.draw(st.text(alphabet='",:{}[] \n\\#x1', max_size=3))
        + text[at + data.draw(st.integers(0, 2)) :]
    )
    try:
        json.loads(damaged)
    except json.JSONDecodeError:
        assert read_loose(damaged).faults
    else:
        assert not read_loose(damaged).faults


def test_deep_nesting_ends() -> None:
    assert read_loose("[" * 100_000).faults


def test_deep_json_is_json() -> None:
    assert not read_loose("[" * 200 + "]" * 200).faults
