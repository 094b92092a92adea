"""What `report --audit` prints and returns."""

import json
from pathlib import Path

import pytest

from dawnrun.cli.audit import audit_entries, pair
from dawnrun.errors import ExitCode, UsageError

HEAD = "epoch\thours\ttop1Accuracy\ttop5Accuracy\n"
GOOD = HEAD + "1\t0.1\t50.002\t75.004\n2\t0.3\t75.002\t93.002\n"
INFERENCE = """{"version": "v1.0", "author": "a", "authorEmail": "a@example.invalid", "framework": "f", "model": "m",
"hardware": "h", "timestamp": "2020-01-02", "latency": %s, "cost": %s, "top5Accuracy": %s}
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_strict_fails_on_any_defect_and_passes_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.tsv", GOOD)
    bad = write(tmp_path, "bad.tsv", GOOD + "\n")
    assert audit_entries([good], strict=True, form="table") == ExitCode.OK
    assert audit_entries([bad], strict=False, form="table") == ExitCode.OK
    assert audit_entries([good, bad], strict=True, form="table") == ExitCode.CONTRADICTED == 7
    assert f"{bad}:4: trailing_blank_line: " in capsys.readouterr().out


def test_one_entry_is_an_object_several_are_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = write(tmp_path, "one.tsv", GOOD), write(tmp_path, "two.tsv", GOOD.replace("93.002", "92.002"))
    audit_entries([one], strict=False, form="json")
    single = json.loads(capsys.readouterr().out)
    assert single["hours_top5_93"] == 0.3
    audit_entries([one, two], strict=False, form="json")
    several = json.loads(capsys.readouterr().out)
    assert [entry["hours_top5_93"] for entry in several] == [0.3, None]


def test_defects_in_json_have_code_file_line_and_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit_entries([write(tmp_path, "e.tsv", GOOD.rstrip("\n"))], strict=False, form="json")
    (defect,) = json.loads(capsys.readouterr().out)["defects"]
    assert (defect["code"], defect["line"]) == ("no_final_newline", 3)
    assert set(defect) == {"code", "file", "line", "message"}


def test_files_are_paired_by_name_then_by_place(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.tsv", GOOD), write(tmp_path, "b.tsv", GOOD)
    ja, other = write(tmp_path, "a.json", "{}"), write(tmp_path, "other.csv", '{"latency": 1}')
    assert pair([a, b, ja]) == [(a, ja), (b, None)]
    assert pair([a, other]) == [(a, other)]
    assert pair([other]) == [(None, other)]
    assert pair([tmp_path]) == [(a, ja), (b, None)]


def test_inference_entries_are_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = write(tmp_path, "slow.json", INFERENCE % (2, "1e-6", 93.5))
    fast = write(tmp_path, "fast.json", INFERENCE % (1, "0.0031", 92))
    audit_entries([slow, fast], strict=False, form="json")
    first, second = json.loads(capsys.readouterr().out)
    assert (first["file"], first["rank_latency"], second["rank_latency"]) == ("fast", 1, 2)
    assert {defect["code"] for defect in first["defects"]} == {"top5Accuracy_below_93", "cost_not_usd_per_image"}
    audit_entries([slow, fast], strict=False, form="table")
    assert "latency, ms" in capsys.readouterr().out


def test_paths_that_are_no_entries(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        pair([tmp_path / "none.tsv"])
    with pytest.raises(UsageError, match=r"no \.tsv or .json files"):
        pair([tmp_path])
