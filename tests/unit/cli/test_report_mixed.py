"""`dawnrun report` over what others published: --audit, and entries and logs beside runs."""

import json
from pathlib import Path

import pytest
from record_factory import make_run

from dawnrun.cli.main import run

ENTRIES = Path(__file__).parents[2] / "parity" / "data" / "dawnbench"
TSV = ENTRIES / "train" / "fastai_pytorch_2018-04-20_r3.tsv"
LOG = """:::MLLOG {"time_ms": 1000, "key": "run_start", "value": null, "metadata": {}}
:::MLLOG {"time_ms": 61000, "key": "eval_accuracy", "value": 0.76, "metadata": {"epoch_num": 4}}
:::MLLOG {"time_ms": 62000, "key": "run_stop", "value": null, "metadata": {"status": "success"}}
"""


def report(*arguments) -> int:
    return run(["report", *map(str, arguments)])


def test_audit_of_all_entries(capsys):
    """32 entries, one line each, and the exact figures with --format json."""
    assert report("--audit", ENTRIES / "train") == 0
    assert "2:57:28" in capsys.readouterr().out
    assert report("--audit", ENTRIES / "train", "--format", "json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert len(entries) == 32
    assert {"epoch_top5_93", "hours_top5_93", "cost_usd_exact", "defects"} <= entries[0].keys()


def test_strict_audit_fails_on_a_defect(capsys):
    malformed = ENTRIES / "malformed" / "fastai_resnet50_p3_16_machine_pytorch_2018-09-06.tsv"
    assert report("--audit", malformed) == 0
    assert report("--audit", "--strict", malformed, malformed.with_suffix(".json")) == 7
    capsys.readouterr()


def test_runs_entries_and_logs_side_by_side(tmp_path, capsys):
    (tmp_path / "log.txt").write_text(LOG)
    path = make_run(tmp_path).path
    inputs = (TSV, path, TSV.with_suffix(".json"), tmp_path / "log.txt")
    assert report(*inputs) == 0
    out = capsys.readouterr().out
    header = next(line for line in out.splitlines() if line.split()[:1] == ["run"])
    assert header.index(path.name[:8]) < header.index("fastai_pytorch")
    times = next(line for line in out.splitlines() if "time, everything" in line)
    assert "2:57:28" in times
    assert next(line for line in out.splitlines() if "time, mlperf" in line).split()[-1] == "0:01:01"
    assert "start-up, training, validation" in out  # what that entry's clock contains
    assert report(*inputs, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [item["run"]["path"] for item in document["runs"]] == [str(path)]
    assert [claim["kind"] for claim in document["claims"]] == ["DAWNBench entry", "MLPerf result log"]
    assert document["claims"][0]["rows"][0].keys() == {"epoch", "hours", "top1", "top5"}


def test_the_page_shows_claims(tmp_path, capsys):
    assert report(make_run(tmp_path).path, TSV, TSV.with_suffix(".json"), "--output", tmp_path / "out") == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Claim 1: fastai_pytorch_2018-04-20_r3" in page
    assert "chart could not be drawn" not in page
    capsys.readouterr()


def test_entries_alone_in_a_folder(tmp_path, capsys):
    """No run: a comparison of entries, and a page; --html has no place to write to."""
    assert report(ENTRIES / "train") == 0
    assert "time, training" in capsys.readouterr().out
    assert report(TSV, "--output", tmp_path / "out") == 0
    assert (tmp_path / "out" / "report.html").is_file()
    assert report(TSV, "--html") == 2
    assert "--output DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--strict", TSV), "give that too"),
        (("--audit", TSV, "--html"), "--audit prints only"),
        ((TSV.with_suffix(".json"),), "no TSV with it"),
        (("--audit", "nowhere.tsv"), "no such file"),
    ],
)
def test_bad_input_is_one_line(arguments, said, capsys):
    assert report(*arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_against_a_record_in_all_three_forms(tmp_path, capsys):
    path = make_run(tmp_path).path
    assert report(path, "--against", "huawei-10m28", "--against", "fastai-16x8") == 0
    out = capsys.readouterr().out
    assert "against huawei-10m28: 0:0" in out and "0:10:28 there" in out
    assert "not like for like with fastai-16x8: the run's data are not the full ILSVRC2012 set" in " ".join(out.split())
    assert report(path, "--against", "huawei-10m28", "--format", "json", "--output", tmp_path / "out") == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"][0]["against"]
    assert (found["name"], found["rule"], found["record_seconds"]) == ("huawei-10m28", "training", 627.9098004)
    assert found["difference_s"] == pytest.approx(found["run_seconds"] - 627.9098004)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "0:10:28 there" in page and "RDMA" in page
    assert report(path, "--against", "huawei-10m29") == 2
    assert "did you mean huawei-10m28" in capsys.readouterr().err


def test_seeds_are_grouped(tmp_path, capsys):
    seeds = [make_run(tmp_path, recipe={"seed": seed}, step_s=0.5 + seed / 10).path for seed in range(3)]
    assert report(*seeds, "--output", tmp_path / "out") == 0
    out = capsys.readouterr().out
    assert "3 of 3 runs reached the target (100 %)" in out
    assert "95 % interval of the mean" in out
    (found,) = json.loads((tmp_path / "out" / "report.json").read_text())["seeds"]
    assert found["seeds"] == [0, 1, 2]
    times = found["time_to_accuracy"]["training"]["times_s"]
    assert found["time_to_accuracy"]["training"]["mean_s"] == pytest.approx(sum(times) / 3)
    assert "Several seeds" in (tmp_path / "out" / "report.html").read_text()


def test_a_run_given_twice_is_one_run(tmp_path, capsys, monkeypatch):
    first, second = make_run(tmp_path / "a").path, make_run(tmp_path / "b").path
    monkeypatch.chdir(first.parent)
    assert report(first.name, second, first, TSV, f"{first.name}/", TSV, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["runs"]) == 2
    assert first.name in json.dumps(found["runs"][0])
