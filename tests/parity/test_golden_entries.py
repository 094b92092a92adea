"""Every figure of the 32 published entries, the 9 malformed ones, and the 22 inference entries, as reckoned beforehand.

The expected figures (golden.csv and its companions) were computed apart from dawnrun, with exact decimals.
"""

import csv
import json
import shutil
import time
from decimal import Decimal
from pathlib import Path

import pytest

from dawnrun.cli.audit import pair
from dawnrun.report.audit import audit
from dawnrun.report.audit_inference import audit_inference, rank
from dawnrun.report.audit_text import aligned, audit_json, audit_table, plain

DATA = Path(__file__).parent / "data" / "dawnbench"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


INDEX = {row["file"]: row for row in rows("index.csv")}
# The copies lost what only the originals had: addresses were removed, and indentation was made anew.
LOST_IN_THE_COPIES = ("authorEmail", "tab_indent")


def as_text(value: object) -> str:
    if value is None:
        return ""
    return plain(value) if isinstance(value, Decimal) else str(value)


def same(found: object, expected: str) -> bool:
    """Equal as text, or as numbers where both are (49.30 and 49.3, 81.0 and 81)."""
    return as_text(found) == expected or (isinstance(found, Decimal) and expected != "" and Decimal(expected) == found)


def codes(listed: str) -> set[str]:
    return {code for code in listed.split(";") if code and not code.startswith(LOST_IN_THE_COPIES)}


@pytest.mark.parametrize("golden", rows("golden.csv"), ids=lambda row: row["file"])
def test_every_golden_figure(golden: dict[str, str]) -> None:
    """C37 among others: the first row at 93 counts, clocks are rounded up, costs are exact."""
    stem = DATA / "train" / golden["file"]
    found = audit(Path(f"{stem}.tsv"), Path(f"{stem}.json"))
    wrong = {name: (getattr(found.figures, name), text) for name, text in golden.items()}
    assert not {name: pair for name, pair in wrong.items() if not same(*pair)}
    known = INDEX[f"train/{golden['file']}"]
    assert {defect.code for defect in found.defects if defect.file.endswith(".tsv")} == codes(known["tsv_issues"])
    assert {defect.code for defect in found.defects if defect.file.endswith(".json")} == codes(known["json_issues"])


@pytest.mark.parametrize("expected", rows("malformed_expected.csv"), ids=lambda row: row["file"])
def test_malformed_entries(expected: dict[str, str]) -> None:
    stem = DATA / "malformed" / expected["file"]
    found = audit(Path(f"{stem}.tsv"), Path(f"{stem}.json"))
    figures = {name: text for name, text in expected.items() if name != "defects"}
    wrong = {name: (getattr(found.figures, name), text) for name, text in figures.items()}
    assert not {name: pair for name, pair in wrong.items() if not same(*pair)}
    assert {d.code for d in found.defects if d.file.endswith(".tsv")} == codes(expected["defects"])
    extra = {d.code for d in found.defects if d.file.endswith(".json")} - codes(
        INDEX[f"malformed/{stem.name}"]["json_issues"]
    )
    assert extra <= {"costPerHour_of_one_machine"}


def test_price_of_one_machine_in_the_first_version_of_fastais_four() -> None:
    stem = DATA / "malformed" / "fastai_resnet50_p3_4_machine_pytorch_2018-09-07"
    found = audit(Path(f"{stem}.tsv"), Path(f"{stem}.json"))
    assert ("costPerHour_of_one_machine", 8) in [(defect.code, defect.line) for defect in found.defects]
    assert found.figures.cost_per_hour_usd == Decimal("97.92")
    assert found.figures.cost_usd_exact == Decimal("48.4792128")


@pytest.mark.parametrize("path", sorted((DATA / "malformed" / "json").iterdir()), ids=lambda path: path.name)
def test_malformed_json(path: Path) -> None:
    """Codes as catalogued; the place of the first fault as the standard parser of Python 3.11 names it."""
    known = INDEX[f"malformed/json/{path.name}"]["json_issues"]
    found = audit(None, path).defects
    if known.startswith("invalid_json"):
        line = int(known.split("line ")[1].split()[0])
        assert ("invalid_json", line) == next((d.code, d.line) for d in found if d.code == "invalid_json")
    else:
        assert {defect.code for defect in found} - {"costPerHour_of_one_machine"} == set(known.split(";"))


def test_inference_entries_ranked() -> None:
    ranked = rank([audit_inference(path) for path in sorted((DATA / "inference").glob("*.json"))])
    for found, golden in zip(ranked, rows("inference_golden.csv"), strict=True):
        wrong = {name: (getattr(found.figures, name), text) for name, text in golden.items()}
        assert not {name: pair for name, pair in wrong.items() if not same(*pair)}
        assert all("not_zero_padded" in defect.code for defect in found.defects)


def test_names_of_files_do_not_matter(tmp_path: Path) -> None:
    for number, golden in enumerate(rows("golden.csv")):
        stem = DATA / "train" / golden["file"]
        shutil.copy(f"{stem}.tsv", tmp_path / f"{number}.tsv")
        shutil.copy(f"{stem}.json", tmp_path / f"{number}.json")
        found = audit(tmp_path / f"{number}.tsv", tmp_path / f"{number}.json").figures
        assert not [name for name, text in golden.items() if name != "file" and not same(getattr(found, name), text)]


def test_json_has_the_golden_names_and_exact_figures() -> None:
    golden = next(row for row in rows("golden.csv") if row["file"].startswith("fastai_resnet50_p3_16"))
    stem = DATA / "train" / golden["file"]
    text = audit_json([audit(Path(f"{stem}.tsv"), Path(f"{stem}.json"))])
    entry = json.loads(text, parse_float=Decimal, parse_constant=pytest.fail)
    assert entry["seconds_top5_93"] == Decimal("1085.18139719963064")
    assert set(golden) <= set(entry)
    assert entry["defects"] == []


def test_thirty_two_entries_within_two_seconds() -> None:
    started = time.process_time()
    found = [audit(tsv, json) for tsv, json in pair([DATA / "train"])]
    table = aligned(audit_table(found))
    assert time.process_time() - started < 2
    assert len(table.splitlines()) == 33
    assert "0:02:43" in table
