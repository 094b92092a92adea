"""The run directory: made whole or not at all, recognised, numbered."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from record_factory import make_run, make_script

from dawnrun.errors import LaunchError, UsageError
from dawnrun.record.rundir import RunDir, newest_runs


def create(folder: Path, name: str = "toy") -> RunDir:
    now = datetime(2026, 1, 31, 12, 5, 9)
    return RunDir.create(
        folder, name=name, recipe_text="a: ä\n", resolved_text="b: 2\n", site_text="c: 3\n", now=lambda: now
    )


def test_a_run_directory_has_its_texts_and_a_name_of_its_own(tmp_path):
    run = create(tmp_path / "deep" / "runs")
    assert re.fullmatch(r"toy-20260131-120509-[0-9a-f]{4}", run.path.name)
    texts = [path.read_text(encoding="utf-8") for path in (run.recipe_yaml, run.resolved_yaml, run.site_yaml)]
    assert texts == ["a: ä\n", "b: 2\n", "c: 3\n"]
    assert RunDir.open(run.path) == run


def test_two_runs_of_one_second_are_two_folders(tmp_path):
    assert len({create(tmp_path).path for _ in range(20)}) == 20


def test_a_taken_name_is_not_taken_again(tmp_path, monkeypatch):
    digits = iter(["aside", "0000", "aside2", "0000", "ffff"])
    monkeypatch.setattr("dawnrun.record.rundir.secrets.token_hex", lambda _: next(digits))
    assert [create(tmp_path).path.name[-4:] for _ in range(2)] == ["0000", "ffff"]


def test_nothing_half_made_is_left_behind(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match=r"runs: a run directory cannot be made here: No space left on device"):
        create(tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_run_root_may_not_be_a_file(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(UsageError, match=r"runs: a run directory cannot be made here: Not a directory"):
        create(tmp_path / "runs")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such run directory"),
        (lambda path: path.write_text("x"), "a file, not a run directory"),
        (lambda path: path.mkdir(), "not a run directory: it has no resolved.yaml and no events"),
        (lambda path: (path / "events").mkdir(parents=True), "not a run directory: it has no resolved.yaml"),
    ],
)
def test_what_is_no_run_directory_is_told_in_one_line(tmp_path, make, message):
    """C46: report of an empty folder, a file, a missing folder."""
    path = tmp_path / "x"
    make(path)
    with pytest.raises(UsageError) as caught:
        RunDir.open(path)
    assert str(caught.value) == f"{path}: {message}"


def test_the_newest_runs_inside_are_named(tmp_path):
    import os

    runs = [create(tmp_path, f"run{n}").path for n in range(4)]
    for age, run in enumerate(runs):
        os.utime(run, (age, age))
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError) as caught:
        RunDir.open(tmp_path)
    assert str(caught.value).endswith(f"; newest runs in it: {runs[3]}, {runs[2]}, {runs[1]}")
    assert newest_runs(tmp_path, limit=1) == [runs[3]]


def test_attempts_are_numbered_from_one(tmp_path):
    run = create(tmp_path)
    assert run.attempts() == []
    assert [run.new_attempt() for _ in range(11)] == list(range(1, 12))
    assert run.attempts() == list(range(1, 12))
    assert run.attempt_dir(11).is_dir()


def test_an_attempt_is_taken_once(tmp_path, monkeypatch):
    """Two commands that resume a run at the same moment: one gets the number, the other is told."""
    run = create(tmp_path)
    run.new_attempt()
    monkeypatch.setattr(RunDir, "attempts", lambda _: [])
    with pytest.raises(LaunchError, match="attempt 1 is being started by another process"):
        run.new_attempt()


def test_an_attempt_that_cannot_be_made_is_told(tmp_path):
    run = create(tmp_path)
    (run.path / "attempts").rmdir()
    (run.path / "attempts").write_text("")
    with pytest.raises(LaunchError, match="attempt 1 cannot be started"):
        run.new_attempt()


def test_attempts_of_a_copy_without_their_folder_are_found_by_their_events(tmp_path):
    run = make_run(tmp_path)
    (run.attempt_dir(1)).rmdir()
    assert run.attempts() == [1]
    assert [path.name for path in run.event_files(1)] == ["launcher.jsonl", "trainer.jsonl"]


def test_everything_of_a_run_lies_inside(tmp_path):
    run = make_script(tmp_path).run
    inside = [run.checkpoints, run.snapshots, run.logs, run.report, run.seal_json, run.events_dir(3)]
    assert [path.relative_to(run.path).as_posix() for path in inside] == [
        "checkpoints",
        "snapshots",
        "logs",
        "report",
        "seal.json",
        "events/3",
    ]
