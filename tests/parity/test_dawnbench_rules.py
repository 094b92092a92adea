"""Our files and our check against the competition's own rules and three of its entries."""

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest
from report_samples import sample

from dawnrun import text
from dawnrun.report.dawnbench import Author, dawnbench_files, dawnbench_problems

DATA = Path(__file__).parent / "data" / "dawnbench"
PUBLISHED = {  # entry: (epoch label of the first row at 93 %, time on the competition's board)
    "alibabacloud_resnet50_gn6e_16_machine_tensorflow_2020-03-17": ("27", "0:02:38"),
    "fastai_pytorch_2018-04-20_r3": ("41", "2:57:28"),
    "huaweicloud_resnet50_modelarts_16_machine_tensorflow18_2019-05-08": ("36", "0:02:43"),
}
FIELDS = ("version", "author", "authorEmail", "framework", "model", "hardware", "timestamp")
COLUMNS = ["epoch", "hours", "top1Accuracy", "top5Accuracy"]


def entry(name: str) -> tuple[str, str]:
    """JSON and TSV of a published entry, with an address in place of the one that was removed."""
    values = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return json.dumps({"authorEmail": "removed", **values}), (DATA / f"{name}.tsv").read_text(encoding="utf-8")


def accepted(json_text: str, tsv_text: str) -> bool:
    """What tests/test_submissions.py and the README of the competition ask for, written down a second time."""
    try:
        values = json.loads(json_text)
        datetime.strptime(values["timestamp"], "%Y-%m-%d")
    except (ValueError, KeyError, TypeError):
        return False
    table = list(csv.reader(io.StringIO(tsv_text), delimiter="\t"))
    rows = [row for row in table[1:] if row]
    if not table or sorted(table[0]) != COLUMNS or not rows:
        return False
    top5 = max(float(row[table[0].index("top5Accuracy")]) for row in rows)
    return all(name in values for name in FIELDS) and values["version"] == "v1.0" and top5 >= 93


def ours() -> tuple[str, str]:
    """The files of a run of ours."""
    files = dawnbench_files(sample(), Author(name="a", email="b"))
    return files.json_text, files.tsv_text


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_entries_are_accepted(name):
    assert dawnbench_problems(*entry(name)) == []
    assert accepted(*entry(name))


def test_our_files_are_accepted():
    assert dawnbench_problems(*ours()) == []
    assert accepted(*ours())


@pytest.mark.parametrize("name", PUBLISHED)
def test_reading_rule_and_rounding_give_the_published_time(name):
    """The first row at 93 % counts; the board rounds up to whole seconds."""
    rows = csv.DictReader(io.StringIO(entry(name)[1]), delimiter="\t")
    first = next(row for row in rows if float(row["top5Accuracy"]) >= 93)
    assert (first["epoch"], text.duration(float(first["hours"]) * 3600)) == PUBLISHED[name]


def test_our_table_has_the_published_form():
    """Same columns in the same order, epochs and hours that grow, percent."""
    ours_rows = list(csv.reader(io.StringIO(ours()[1]), delimiter="\t"))
    theirs = list(csv.reader(io.StringIO(entry("fastai_pytorch_2018-04-20_r3")[1]), delimiter="\t"))
    assert ours_rows[0] == theirs[0] == COLUMNS
    assert {len(row) for row in ours_rows} == {4}
    values = [[float(cell) for cell in row] for row in ours_rows[1:]]
    assert values == sorted(values)


@pytest.mark.parametrize("name", [*PUBLISHED, "ours"])
@pytest.mark.parametrize(
    "change",
    [
        lambda j, t: (j[:-5], t),
        lambda j, t: (j.replace("v1.0", "v2.0"), t),
        lambda j, t: (j.replace('"authorEmail"', '"email"'), t),
        lambda j, t: (j.replace('"timestamp": "20', '"timestamp": "on 20'), t),
        lambda j, t: (j, t.replace("\t", " ")),
        lambda j, t: (j, t.replace("top5Accuracy", "top5")),
        lambda j, t: (j, t.splitlines()[0] + "\n"),
        lambda j, t: (j, ""),
        lambda j, t: (j, t.replace("\t9", "\t8")),
        lambda j, t: (j, t.replace("\n", "\r\n") + "\r\n"),
        lambda j, t: (j, "\n".join("\t".join(reversed(line.split("\t"))) for line in t.splitlines())),
    ],
    ids=["cut", "version", "email", "date", "spaces", "column", "no-row", "empty", "below", "crlf", "column-order"],
)
def test_our_check_agrees_with_the_rules(name, change):
    pair = change(*(ours() if name == "ours" else entry(name)))
    assert (dawnbench_problems(*pair) == []) == accepted(*pair)
