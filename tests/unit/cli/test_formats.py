"""`dawnrun report --format`: what is printed, what is written, what cannot be."""

import builtins
import csv
import io
from pathlib import Path

import pytest
from record_factory import make_run

from dawnrun.cli.main import run

ENTRY = Path(__file__).parents[2] / "parity" / "data" / "dawnbench" / "train" / "fastai_pytorch_2018-04-20_r3.tsv"


@pytest.fixture
def path(tmp_path) -> Path:
    return make_run(tmp_path).path


def report(*arguments) -> int:
    return run(["report", *map(str, arguments)])


def test_csv_has_a_line_each_with_exact_figures(path, capsys):
    assert report(path, ENTRY, ENTRY.with_suffix(".json"), "--format", "csv", "--against", "huawei-10m28") == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["kind"] for line in lines] == ["run", "DAWNBench entry", "published record"]
    assert (lines[0]["top5_at_crossing"], lines[0]["epoch_of_crossing"]) == ("94.0", "3")
    assert float(lines[0]["training_s"]) == 20.0
    assert lines[1]["everything_s"].startswith("10647.119494") and lines[1]["dawnbench_s"] == ""
    assert lines[2]["training_s"] == "627.9098004"


def test_a_run_below_its_target_has_no_time_in_csv(tmp_path, capsys):
    assert report(make_run(tmp_path, accuracies=((300, 800),)).path, "--format", "csv") == 6
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (line["outcome"], line["training_s"], line["best_top5"]) == ("not reached", "", "80.0")


def test_markdown_is_tables_and_notes(path, capsys):
    assert report(path, "--format", "markdown", "--against", "fastai-16x8") == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("| time, training")]
    assert rows == ["| time, training | 20.0 s |"]
    assert "| target | top-5 of 93 % | top5\\>=93 |" in out
    assert f"- {path.name}: not the full ILSVRC2012 set" in out


def test_html_is_printed_or_written_alone(path, tmp_path, capsys):
    assert report(path, "--format", "html") == 0
    page = capsys.readouterr().out
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert report(path, "--format", "html", "--output", tmp_path / "out") == 0
    assert (tmp_path / "out" / "report.html").read_text() == page
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["report.html"]


def test_dawnbench_alone(path, tmp_path, capsys):
    options = ("--author", "Jane", "--email", "j@example.invalid", "--output", tmp_path / "out")
    assert report(path, "--format", "dawnbench", *options) == 0
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".json", ".tsv"}
    assert report(path, "--format", "dawnbench") == 2
    assert "both --author and --email" in capsys.readouterr().err


def test_mlperf_of_one_run_is_printed_of_several_written(path, tmp_path, capsys):
    assert report(path, "--format", "mlperf", "--author", "Org") == 0
    captured = capsys.readouterr()
    assert all(line.startswith(":::MLLOG {") for line in captured.out.splitlines())
    assert "not as ruleset 3.1.0 has it: end_learning_rate" in captured.err
    other = make_run(tmp_path, recipe={"seed": 1}).path
    assert report(path, other, "--format", "mlperf") == 2
    assert "give --output DIR" in capsys.readouterr().err
    assert report(path, other, "--format", "mlperf", "--output", tmp_path / "out") == 0
    assert len(list((tmp_path / "out").rglob("mlperf.log"))) == 2


def test_without_tensorboard_the_command_to_install_it(path, monkeypatch, capsys):
    whole = builtins.__import__

    def without(name, *arguments, **settings):
        if name.startswith("tensorboard"):
            raise ImportError("No module named 'tensorboard'")
        return whole(name, *arguments, **settings)

    monkeypatch.setattr(builtins, "__import__", without)
    assert report(path, "--format", "tensorboard") == 2
    assert "pip install 'dawnrun[tensorboard]'" in capsys.readouterr().err


def test_audit_has_two_forms(capsys):
    assert report("--audit", ENTRY, "--format", "csv") == 2
    assert "table or json" in capsys.readouterr().err
