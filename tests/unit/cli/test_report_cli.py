"""`dawnrun report`, called in the process."""

import json
from pathlib import Path

import pytest
from record_factory import make_run, make_script

from dawnrun.cli.main import run
from dawnrun.record.rundir import RunDir
from dawnrun.record.seal import write_seal
from dawnrun.report import charts

REACHED = ((300, 800), (500, 925), (600, 931), (700, 928))
MISSED = ((300, 800), (500, 925))


@pytest.fixture
def reached(tmp_path) -> Path:
    return make_run(tmp_path, accuracies=REACHED).path


@pytest.fixture
def missed(tmp_path) -> Path:
    return make_run(tmp_path, accuracies=MISSED).path


def report(*arguments) -> int:
    return run(["report", *map(str, arguments)])


def events_file(path: Path) -> Path:
    return path / "events" / "1" / "trainer.jsonl"


def edit_events(path: Path, change) -> None:
    """Replace the trainer's events; `change` returns None for those to be left out."""
    events = [change(json.loads(line)) for line in events_file(path).read_text().splitlines()]
    events_file(path).write_text("".join(json.dumps(event) + "\n" for event in events if event))


def test_a_table_and_nothing_written(reached, capsys):
    """C37: the first crossing; C44: no control characters in what is piped."""
    before = sorted(reached.rglob("*"))
    assert report(reached) == 0
    out = capsys.readouterr().out
    assert "target reached: top-5 of 93 % in epoch 3" in out.splitlines()[-1]
    assert "not the full ILSVRC2012 set (30 classes, 320 and 1,000 images)" in out  # C19
    assert "epochs 1-2: 64 px centre crop of 72 px; 1,000 images, 1 process" in out  # C22
    assert all(char.isprintable() or char == "\n" for char in out)
    assert sorted(reached.rglob("*")) == before


def test_below_the_target(missed, capsys):
    """C37: the table is printed, no time is, the exit code says it."""
    assert report(missed) == 6
    out = capsys.readouterr().out
    assert "target not reached: top-5 of 93 %; best top-5 92.50 % in epoch 2 (0.50 short)" in out
    assert next(line for line in out.splitlines() if "time to target" in line).count("not reached") == 4


def test_json_is_strict_and_alone_on_standard_output(reached, missed, capsys):
    """C40."""
    assert report(reached, missed, "--format", "json", "--output", reached / "r") == 6
    captured = capsys.readouterr()
    runs = json.loads(captured.out, parse_constant=lambda name: pytest.fail(name))["runs"]
    assert [item["target"]["reached"] for item in runs] == [True, False]
    assert "report.html" in captured.err


def test_nan_loss(tmp_path, capsys):
    """C40: a loss that was not finite is null in strict JSON, with the reason."""
    script = make_script(tmp_path)
    script.launch()
    script.start()
    script.window(5, loss=float("nan"))
    script.train_epoch()
    script.validate(300, 800)
    script.finish("interrupted")
    assert report(script.run.path, "--format", "json") == 0
    (item,) = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))["runs"]
    assert item["progress"][0]["loss"] is None
    assert item["null_reasons"]["progress[0].loss"] == "the loss was not finite"


def test_all_files(reached, capsys):
    """--html writes into the run; the paths are the last lines."""
    options = ("--author", "Jane", "--email", "j@example.invalid")
    assert report(reached, "--html", *options) == 0
    wrote = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wrote ")]
    stem = "jane_resnet50_1x1-cpu_pytorch"
    assert [Path(line[6:]) for line in wrote] == [
        reached / "report" / name for name in ("report.json", f"{stem}.json", f"{stem}.tsv", "report.html")
    ]
    assert all(Path(line[6:]).is_file() for line in wrote)


def test_entry_below_the_target(missed, tmp_path, capsys):
    """C37: refused with exit 6; --partial writes it all the same."""
    options = ("--output", tmp_path / "out", "--author", "Jane", "--email", "j@example.invalid")
    assert report(missed, *options) == 6
    assert "no DAWNBench entry: best top-5 is 92.50 %" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").glob("*.tsv")] == []
    assert report(missed, *options, "--partial") == 6
    assert len(list((tmp_path / "out").glob("*.tsv"))) == 1


def test_a_failing_plot_is_a_warning(reached, tmp_path, capsys, monkeypatch):
    """C40: all other files appear, DAWNBench's among them, and the exit code is 0."""

    def fail(runs, others):
        raise RuntimeError("no font")

    monkeypatch.setattr(charts, "CHARTS", (("loss", "Loss", fail),))
    options = ("--output", tmp_path / "out", "--author", "Jane", "--email", "j@example.invalid")
    assert report(reached, *options) == 0
    assert "warning: chart loss could not be drawn: RuntimeError: no font" in capsys.readouterr().err
    wrote = sorted(path.name for path in (tmp_path / "out").iterdir())
    stem = "jane_resnet50_1x1-cpu_pytorch"
    assert wrote == [f"{stem}.json", f"{stem}.tsv", "report.html", "report.json"]


def test_rows_edited_to_fractions_are_refused(reached, capsys):
    """C38."""

    def fraction(event):
        if event["kind"] == "eval.finished":
            event["data"]["top5_correct"] /= 1000
            event["data"]["top1_correct"] /= 1000
        return event

    edit_events(reached, fraction)
    assert report(reached) == 2
    captured = capsys.readouterr()
    assert "whole number" in captured.err
    assert captured.out == ""


def test_a_row_removed_is_refused(reached, capsys):
    """C38."""
    edit_events(
        reached, lambda event: None if event["kind"] == "eval.finished" and event["data"]["epoch"] == 1 else event
    )
    assert report(reached) == 2
    assert "epoch 2" in capsys.readouterr().err


def test_a_recipe_edited_after_the_run_changes_nothing(reached, capsys):
    """C39: what was used is in the event log."""
    assert report(reached, "--format", "json") == 0
    before = capsys.readouterr().out
    for name in ("recipe.yaml", "resolved.yaml", "site.yaml"):
        (reached / name).write_text("seed: 99\n")
    assert report(reached, "--format", "json") == 0
    assert capsys.readouterr().out == before


def test_a_log_cut_at_any_byte_still_gives_a_report(tmp_path, capsys):
    """Killed at any moment: a table, or one line that says what is missing; never a traceback."""
    path = make_run(tmp_path, accuracies=MISSED).path
    whole = events_file(path).read_bytes()
    (path / "events" / "1" / "launcher.jsonl").unlink()
    for size in range(0, len(whole) - 1, 97):
        events_file(path).write_bytes(whole[:size])
        assert report(path) in (0, 6), size
        assert "note: the run is not complete" in capsys.readouterr().out


def newer(path: Path) -> None:
    """The record says that it was written in a format to come."""

    def change(event):
        event["data"] |= {"schema_version": 2} if event["kind"] == "run.started" else {}
        return event

    edit_events(path, change)


def joined(path: Path) -> None:
    """Another run's events are copied into the folder."""
    other = make_run(path.parent / "other", accuracies=MISSED).path
    (path / "events" / "1").joinpath("launcher.jsonl").unlink()
    second = path / "events" / "2"
    second.mkdir()
    text = events_file(other).read_text().replace('"attempt": 1', '"attempt": 2').replace('"attempt":1', '"attempt":2')
    (second / "trainer.jsonl").write_text(text)


def spoilt(path: Path) -> None:
    """A line in the middle is no event."""
    lines = events_file(path).read_text().splitlines(keepends=True)
    events_file(path).write_text("".join([*lines[:5], "{]\n", *lines[6:]]))


@pytest.mark.parametrize(
    ("harm", "said"),
    [(newer, "written by a newer dawnrun"), (joined, "two runs in one folder"), (spoilt, "trainer.jsonl")],
)
@pytest.mark.parametrize("form", ["table", "json", "mlperf"])
def test_a_record_that_cannot_be_right_is_refused_in_one_line(reached, tmp_path, capsys, harm, said, form):
    """Nothing is reported from it, whatever the form, and no file is written."""
    (tmp_path / "other").mkdir()
    harm(reached)
    assert report(reached, "--format", form, "--output", tmp_path / "out") != 0
    captured = capsys.readouterr()
    assert said in captured.err and len(captured.err.splitlines()) == 1
    assert captured.out == "" and not (tmp_path / "out").exists()


def test_without_a_price_there_is_no_cost(tmp_path, capsys):
    """The missing price is named in every form; JSON says why it is null."""
    path = make_run(tmp_path, accuracies=REACHED, site={"usd_per_node_hour": None}).path
    assert report(path) == 0
    assert "no price: set usd_per_node_hour in the site" in " ".join(capsys.readouterr().out.split())
    assert report(path, "--format", "json") == 0
    (item,) = json.loads(capsys.readouterr().out)["runs"]
    assert item["cost"]["cost_to_accuracy_usd"]["dawnbench"] is None
    assert item["null_reasons"]["cost.cost_to_accuracy_usd"] == "the site has no usd_per_node_hour"
    assert report(path, "--format", "csv") == 0
    assert "nan" not in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("empty",), "not a run directory"),
        (("foreign",), "not a run directory"),
        (("nowhere",), "no such run directory"),
        (("file",), "a file, not a run directory"),
        ((), "missing argument"),
        (("run", "--format", "xml"), "xml"),
        (("run", "--author", "x"), "both --author and --email"),
        (("run", "--author", "x", "--email", "y"), "--output DIR or --html"),
        (("run", "--partial"), "give --author and --email"),
        (("run", "--output", "file"), "cannot be written"),
        (("run", "run2"), "no such run directory"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    """C46: what, where, how to put it right; exit 2, no traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign" / "events").mkdir(parents=True)
    (tmp_path / "foreign" / "model.pt").write_bytes(b"x")
    (tmp_path / "file").write_text("x")
    if "run" in arguments:
        make_run(tmp_path, accuracies=REACHED).path.rename(tmp_path / "run")
    assert report(*arguments) == 2
    err = capsys.readouterr().err
    assert said in err.lower() or said in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_a_log_edited_after_the_seal_is_told_and_the_exit_code_stays(reached, capsys):
    write_seal(RunDir(reached))
    assert report(reached) == 0
    assert "sealed" not in capsys.readouterr().out
    edit_events(reached, lambda event: event if event["kind"] != "startup" else None)
    assert report(reached) == 0
    out = " ".join(capsys.readouterr().out.split())
    told = "the event log is not what was sealed: events/1/trainer.jsonl: changed"
    assert out.index(told) < out.index("time to target")
    for form in ("json", "csv", "markdown", "html"):
        assert report(reached, "--format", form) == 0
        assert told in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("form", ["table", "dawnbench"])
def test_an_author_that_an_audit_would_fault_is_refused(reached, tmp_path, capsys, form):
    asked = ("--format", form, "--output", tmp_path / "out", "--author", "A", "--email")
    assert report(reached, *asked, "nonsense") == 2
    assert "not an e-mail address" in capsys.readouterr().err
    assert report(reached, *asked, "a@example.org", "--code-url", "javascript:alert(1)") == 2
    assert not (tmp_path / "out").exists()
