"""Files of a report."""

import json

import pytest
from report_samples import sample

from dawnrun.errors import ExitCode, ReportError
from dawnrun.report import files, html
from dawnrun.report.dawnbench import Author
from dawnrun.report.files import write_reports, write_text

AUTHOR = Author(name="Jane", email="jane@example.invalid", code_url="https://example.invalid")
STEM = "jane_resnet50_16x8-tesla-v100_pytorch"


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
    """Charts have their own tests."""
    monkeypatch.setattr(html, "_charts", lambda summaries, others: ([], []))


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_all_files_of_one_run(tmp_path):
    written = write_reports([sample()], tmp_path / "new" / "report", author=AUTHOR)
    assert [path.name for path in written.paths] == ["report.json", f"{STEM}.json", f"{STEM}.tsv", "report.html"]
    assert names(tmp_path / "new" / "report") == sorted(path.name for path in written.paths)
    assert (written.notes, written.warnings, written.refused) == ((), (), False)
    assert json.loads((tmp_path / "new/report/report.json").read_text())["runs"][0]["run"]["status"] == "finished"


def test_no_author_no_entry(tmp_path):
    written = write_reports([sample()], tmp_path)
    assert names(tmp_path) == ["report.html", "report.json"]
    assert written.notes == ("DAWNBench's files are written with --author and --email",)


def test_below_the_target_the_entry_is_refused(tmp_path):
    """C37: the other files appear, the entry does not, unless it is asked for as partial."""
    written = write_reports([sample((90, 91))], tmp_path / "a", author=AUTHOR)
    assert written.refused
    assert "best top-5 is 91.00 %" in written.notes[0]
    assert names(tmp_path / "a") == ["report.html", "report.json"]
    written = write_reports([sample((90, 91))], tmp_path / "b", author=AUTHOR, partial=True)
    assert not written.refused
    assert f"{STEM}.tsv" in names(tmp_path / "b")


def test_two_seeds_do_not_overwrite_each_other(tmp_path):
    write_reports([sample(path="runs/a"), sample(path="runs/b")], tmp_path, author=AUTHOR)
    assert names(tmp_path) == [
        f"1-a/{STEM}.json", f"1-a/{STEM}.tsv", f"2-b/{STEM}.json", f"2-b/{STEM}.tsv", "report.html", "report.json",
    ]  # fmt: skip


def test_figures_are_written_before_the_page(tmp_path, monkeypatch):
    """C40: whatever happens to the page, JSON and TSV are there."""

    def fail(summaries, others):
        raise RuntimeError("page")

    monkeypatch.setattr(files, "_page", fail)
    with pytest.raises(RuntimeError, match="page"):
        write_reports([sample()], tmp_path, author=AUTHOR)
    assert names(tmp_path) == [f"{STEM}.json", f"{STEM}.tsv", "report.json"]


def test_unwritable_output_is_one_message(tmp_path):
    """C46."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"report\.json: cannot be written: .*--output") as caught:
        write_reports([sample()], tmp_path / "file")
    assert caught.value.exit_code == ExitCode.USAGE
    assert "\n" not in str(caught.value)


def test_nothing_half_written(tmp_path):
    """A file that cannot be put in place leaves neither itself nor its draft."""
    (tmp_path / "report.json").mkdir()
    (tmp_path / "report.json" / "kept").write_text("x")
    with pytest.raises(ReportError):
        write_text(tmp_path / "report.json", "{}")
    assert names(tmp_path) == ["report.json/kept"]
