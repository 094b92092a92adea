"""DAWNBench's files."""

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import RECIPE, VAL_IMAGES, sample, sample_attempt, sample_epoch

from dawnrun.errors import ExitCode, ReportError, UsageError
from dawnrun.report.dawnbench import Author, dawnbench_files, dawnbench_problems, entrant, reached_dawnbench
from dawnrun.report.price import machines

AUTHOR = Author(name="Jane Doe & co", email="jane@example.invalid", code_url="https://example.invalid/tree/0123")


def rows(tsv_text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tsv_text), delimiter="\t"))


def test_first_crossing_counts_whatever_comes_later():
    """C37: rows 92.5, 93.01, 92.8, 93.4 at 0.1 to 0.4 h are 0.2 h, epoch 2."""
    table = rows(dawnbench_files(sample(), AUTHOR).tsv_text)
    first = next(row for row in table if float(row["top5Accuracy"]) >= 93)
    assert (first["epoch"], float(first["hours"])) == ("2", 0.2)


def test_epochs_from_one_and_percent():
    """C38: five epochs give rows 1 to 5, accuracies in percent."""
    table = rows(dawnbench_files(sample((50, 60, 70, 80, 93)), AUTHOR).tsv_text)
    assert [row["epoch"] for row in table] == ["1", "2", "3", "4", "5"]
    assert [row["top5Accuracy"] for row in table] == ["50", "60", "70", "80", "93"]
    assert [row["top1Accuracy"] for row in table] == ["30", "40", "50", "60", "73"]


def test_hours_have_digits_enough():
    """A run of minutes differs from its neighbours by milliseconds: 1e-9 h is 4 microseconds."""
    epoch = sample_epoch(1, 0.045093458, 93.1)
    (row,) = rows(dawnbench_files(sample((93.1,), epochs=(epoch,)), AUTHOR).tsv_text)
    assert float(row["hours"]) == pytest.approx(0.045093458, abs=1e-9)


def test_price_is_for_all_machines_together():
    """C39: 16 nodes at 24.48 for 0.3 h: costPerHour 391.68, cost 117.50."""
    summary = sample((90, 91, 93.5))
    entry = json.loads(dawnbench_files(summary, AUTHOR).json_text)
    assert entry["costPerHour"] == 391.68
    assert entry["misc"]["costToTargetUSD"] == 117.5


def test_filled_from_the_record():
    """C39: schedule, batch sizes, optimizer, versions and commit come from what ran; nothing is missing."""
    files = dawnbench_files(sample(), AUTHOR)
    entry = json.loads(files.json_text)
    misc = entry["misc"]
    assert files.json_name == "jane-doe-co_resnet50_16x8-tesla-v100_pytorch.json"
    assert files.tsv_name == "jane-doe-co_resnet50_16x8-tesla-v100_pytorch.tsv"
    assert (entry["version"], entry["timestamp"]) == ("v1.0", "2024-01-02")
    assert (entry["framework"], entry["model"]) == ("PyTorch 2.14.1", "ResNet-50")
    assert entry["commitHash"].startswith("0123456789")
    assert entry["usedBlacklist"] is True
    assert [(phase["imageSize"], phase["batchSize"]) for phase in misc["phases"]] == [(128, 4096), (224, 1792)]
    assert misc["schedule"][1] == {"epochs": [2, 4], "start": 2.0, "end": 0.25, "shape": "cosine"}
    assert (misc["momentum"], misc["weightDecay"], misc["nesterov"]) == (0.9, 5e-5, True)
    assert "attempts" not in misc
    assert files.missing == ()


def test_missing_fields_are_listed():
    """C39: what the record does not hold is named, not invented."""
    summary = sample(site={"nodes": 1}, started={"num_classes": 1000, "world_size": 1})
    files = dawnbench_files(summary, Author(name="a", email="b"))
    assert [line.split(":")[0] for line in files.missing] == ["codeURL", "costPerHour", "commitHash", "framework"]
    assert "costPerHour" not in json.loads(files.json_text)


def test_below_the_target_is_refused():
    """C37: 92.998 is not 93; --partial writes the files and says what they are."""
    summary = sample((92.5, 92.998))
    with pytest.raises(ReportError, match=r"best top-5 is 92\.99 %.*--partial") as caught:
        dawnbench_files(summary, AUTHOR)
    assert caught.value.exit_code == ExitCode.USAGE
    files = dawnbench_files(summary, AUTHOR, partial=True)
    assert "92.99 %" in json.loads(files.json_text)["misc"]["partial"]
    assert rows(files.tsv_text)[1]["top5Accuracy"] == "92.998"
    assert dawnbench_problems(files.json_text, files.tsv_text) == [
        "TSV: highest top5Accuracy is 92.998, the rules ask for 93"
    ]


def test_five_classes_make_no_entry():
    summary = sample(started={**sample().started, "num_classes": 5})
    assert not reached_dawnbench(summary)
    with pytest.raises(ReportError, match="five classes or fewer"):
        dawnbench_files(summary, AUTHOR)


def test_own_target_must_be_reached_too():
    """A run that asked for more than the competition and did not get it is no entry."""
    recipe = {**RECIPE, "target": {"top5": 94.0, "top1": None}}
    summary = sample((92.5, 93.4), recipe=recipe)
    with pytest.raises(ReportError, match="target not reached"):
        dawnbench_files(summary, AUTHOR)


def test_epochs_without_validation_have_no_row():
    files = dawnbench_files(sample((92.5, None, 93.5)), AUTHOR)
    assert [row["epoch"] for row in rows(files.tsv_text)] == ["1", "3"]
    assert json.loads(files.json_text)["misc"]["epochsWithoutRow"] == [2]


@pytest.mark.parametrize(("images", "used"), [(50_000, True), (48_238, False), (48_000, None)])
def test_whether_blacklisted_images_were_validated_is_said_of_the_known_sets(images, used):
    part = [sample_epoch(i, i / 10, 95.0, num_val_images=images) for i in (1, 2)]
    files = dawnbench_files(sample(epochs=tuple(part)), AUTHOR)
    entry = json.loads(files.json_text)
    assert entry.get("usedBlacklist") is used
    assert entry["misc"]["validation_images"] == [images]
    assert [lacks.startswith("usedBlacklist") for lacks in files.missing[:1]] == [True] * (used is None)


def test_attempts_are_stated():
    attempts = (sample_attempt(1, 150, ended="lost"), sample_attempt(2, 400, lost_steps=50, idle_s=90.0))
    misc = json.loads(dawnbench_files(sample(attempts=attempts), AUTHOR).json_text)["misc"]
    assert misc["attempts"] == "2 attempts, 50 steps lost and redone, 0:01:30 between them"


@given(correct=st.lists(st.integers(0, VAL_IMAGES), min_size=1, max_size=30))
def test_reading_rule_agrees_with_the_counts(correct):
    """No rounding in the TSV moves a row across 93 %."""
    tops = [100 * number / VAL_IMAGES for number in correct]
    table = rows(dawnbench_files(sample(tops), AUTHOR, partial=True).tsv_text)
    crossed = [int(row["epoch"]) for row in table if float(row["top5Accuracy"]) >= 93]
    assert crossed == [i for i, number in enumerate(correct, start=1) if number * 100 >= 93 * VAL_IMAGES]


@pytest.mark.parametrize(
    ("json_text", "said"),
    [
        ("{", "JSON: "),
        ("[]", "not an object"),
        ('{"version": "v2.0"}', "author is missing"),
        ('{"version": "v2.0"}', "only v1.0"),
        ('{"timestamp": "20 April"}', "not a date"),
    ],
)
def test_problems_of_the_json(json_text, said):
    good = dawnbench_files(sample(), AUTHOR).tsv_text
    assert any(said in problem for problem in dawnbench_problems(json_text, good))


@pytest.mark.parametrize(
    ("tsv_text", "said"),
    [
        ("", "columns are missing"),
        ("epoch hours top1Accuracy top5Accuracy\n1 1 1 99\n", "columns are"),
        ("epoch\thours\ttop1Accuracy\ttop5Accuracy\n", "no row"),
        ("epoch\thours\ttop1Accuracy\ttop5Accuracy\n1\t1\t1\tx\n", "not a number"),
        ("epoch\thours\ttop1Accuracy\ttop5Accuracy\n1\t1\t0.75\t0.931\n", "highest top5Accuracy is 0.931"),
    ],
)
def test_problems_of_the_tsv(tsv_text, said):
    good = dawnbench_files(sample(), AUTHOR).json_text
    assert any(said in problem for problem in dawnbench_problems(good, tsv_text))


@pytest.mark.parametrize(
    ("name", "email", "code_url", "said"),
    [
        ("A", "nonsense", None, "--email 'nonsense': not an e-mail address"),
        ("A", "a@example.org, b@example.org", None, "several addresses"),
        ("A", " a@example.org", None, "blanks"),
        ("A", "a@example.org", "javascript:alert(1)", "not an http address"),
        ("A", "a@example.org", "https://example.org/a b", "blanks"),
        ("A", "a@example.org", "", "not an http address"),
        (" ", "a@example.org", None, "--author is empty"),
    ],
)
def test_what_an_audit_calls_a_defect_is_refused(name, email, code_url, said):
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        entrant(name, email, code_url)
    assert refused.value.exit_code == ExitCode.USAGE


def test_hardware_names_devices_cpu_and_counts():
    entry = json.loads(dawnbench_files(sample(), AUTHOR).json_text)
    assert entry["hardware"] == (
        "16 nodes, 128 processes, cuda (Tesla V100-SXM2-16GB), fp16; "
        "in each node: 8 x Tesla V100-SXM2-16GB, a CPU, 96 cores, 256 GiB"
    )
    assert machines(entry["hardware"]).number == 16
    on_cpu = {**sample().started, "device": "cpu", "device_name": None, "machine": {"cpu": "Some CPU", "cores": 1}}
    entry = json.loads(dawnbench_files(sample(started=on_cpu), AUTHOR).json_text)
    assert entry["hardware"].endswith("; in each node: Some CPU, 1 core")
