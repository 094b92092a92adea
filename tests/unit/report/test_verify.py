"""Every check of `dawnrun verify` by itself: what confirms, what cannot be told, what contradicts."""

import json
from dataclasses import replace

import pytest
from record_factory import make_run
from report_samples import sample

from dawnrun.recipe.dump import resolved_text, to_mapping, values_sha256
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe
from dawnrun.record.machine import package_versions
from dawnrun.record.seal import write_seal
from dawnrun.record.summary import summarize
from dawnrun.report import verify
from dawnrun.report.document import report_json

RECIPE = read_text("name: toy\nphases: [{epochs: 1, image_size: 64, global_batch_size: 32, per_device_batch_size: 32}]\nlr: 0.1\n",
                   Recipe, source="toy.yaml").value  # fmt: skip
VERSIONS = dict(package_versions(("torch", "torchvision")))


@pytest.fixture
def run(tmp_path):
    run = make_run(tmp_path)
    write_seal(run)
    return run


def verdicts(findings) -> list[str]:
    return [finding.verdict for finding in findings]


def test_the_claim_names_all_four_clocks(run):
    found = verify.check_claim(summarize(run))
    assert found.verdict == "confirmed"
    assert "target reached" in found.text
    assert all(f"{rule} 0:0" in found.text for rule in ("dawnbench", "mlperf", "training", "everything"))


def test_a_report_beside_the_log(run):
    summary = summarize(run)
    assert verdicts(verify.check_reports(run, summary)) == ["not checked"]
    run.report.mkdir()
    path = run.report / "report.json"
    path.write_text(report_json([summary]))
    assert verdicts(verify.check_reports(run, summary)) == ["confirmed"]
    document = json.loads(path.read_text())
    document["runs"][0]["time_to_accuracy"]["training"]["seconds"] -= 0.5
    path.write_text(json.dumps(document))
    assert verdicts(verify.check_reports(run, summary)) == ["contradicts"]
    document["runs"][0]["time_to_accuracy"] = None
    path.write_text(json.dumps(document))
    assert verdicts(verify.check_reports(run, summary)) == ["contradicts"]
    document["runs"] = []
    path.write_text(json.dumps(document))
    assert verdicts(verify.check_reports(run, summary)) == ["not checked"]
    path.write_text("{")
    assert verdicts(verify.check_reports(run, summary)) == ["contradicts"]


def test_the_seal_and_what_it_shows(run):
    found = verify.check_sealed(run)
    assert found.verdict == "confirmed" and "not forgery" in found.text
    checkpoint = next(run.checkpoints.iterdir())
    write_seal(run, checkpoint)
    (checkpoint / "state.pt").unlink()
    found = verify.check_sealed(run)
    assert found.verdict == "not checked" and "state.pt" in found.text
    (checkpoint / "state.pt").write_bytes(b"other")
    assert verify.check_sealed(run).verdict == "contradicts"


def test_a_changed_log_contradicts_its_seal(run):
    log = run.event_files(1)[0]
    log.write_bytes(log.read_bytes() + b"\n")
    found = verify.check_sealed(run)
    assert (found.verdict, found.text) == ("contradicts", "events/1/launcher.jsonl: changed")
    run.seal_json.write_text("{}")
    assert verify.check_sealed(run).verdict == "contradicts"
    run.seal_json.unlink()
    assert verify.check_sealed(run).verdict == "not checked"


def test_the_recipes_hash_and_file(run):
    values = to_mapping(RECIPE)
    summary = replace(summarize(run), recipe=values)
    good = {"recipe": values, "recipe_sha256": values_sha256(values)}
    run.resolved_yaml.write_text(resolved_text(RECIPE))
    assert verdicts(verify.check_recipe(run, summary, [good])) == ["confirmed", "confirmed"]
    edited = {**good, "recipe": {**values, "seed": 5}}
    assert verdicts(verify.check_recipe(run, summary, [edited])) == ["contradicts", "confirmed"]
    run.resolved_yaml.write_text(resolved_text(RECIPE.model_copy(update={"seed": 5})))
    assert verdicts(verify.check_recipe(run, summary, [good])) == ["confirmed", "contradicts"]
    run.resolved_yaml.write_text("name: [")
    assert verdicts(verify.check_recipe(run, summary, [good, good])) == ["confirmed", "confirmed", "contradicts"]
    unknown = {"recipe": {**values, "later": 1}, "recipe_sha256": values_sha256({**values, "later": 1})}
    later = replace(summary, recipe=unknown["recipe"])
    assert verdicts(verify.check_recipe(run, later, [unknown])) == ["confirmed", "not checked"]


@pytest.mark.parametrize(
    ("stated", "here", "verdict"),
    [("a" * 40, "a" * 40, "confirmed"), ("a" * 40, "b" * 40, "not checked"), ("a" * 40, None, "not checked"),
     (None, "a" * 40, "not checked"), ("a" * 40 + "-dirty", "a" * 40 + "-dirty", "not checked")],
)  # fmt: skip
def test_the_codes_commit_never_contradicts(monkeypatch, stated, here, verdict):
    """Other code is no proof against a claim."""
    monkeypatch.setattr(verify, "git_commit", lambda _: here)
    assert verify.check_code({"git_commit": stated}).verdict == verdict


def test_initial_weights():
    started = {"initial_weights_sha256": "5" * 64, "versions": VERSIONS}
    assert verify.judge_weights("5" * 64, started).verdict == "confirmed"
    assert verify.judge_weights("6" * 64, started).verdict == "contradicts"
    assert verify.judge_weights(None, started).verdict == "not checked"
    elsewhere = {**started, "versions": {**VERSIONS, "torch": "1.0"}}
    assert verify.judge_weights("5" * 64, elsewhere).verdict == "confirmed"
    assert verify.judge_weights("6" * 64, elsewhere).verdict == "not checked"


def test_counts_are_to_be_the_same_on_the_same_arithmetic():
    row = sample().epochs[1]
    started = {"device": "cpu", "versions": VERSIONS}
    same = {"num_images": row.num_val_images, "top1_correct": row.top1_correct, "top5_correct": row.top5_correct}
    assert verify.judge_counts(same, row, started, "cpu").verdict == "confirmed"
    off = {**same, "top1_correct": row.top1_correct - 1}
    assert verify.judge_counts(off, row, started, "cpu").verdict == "contradicts"
    assert verify.judge_counts(off, row, started, "cuda").verdict == "not checked"
    fewer = {**off, "num_images": 10}
    assert verify.judge_counts(fewer, row, started, "cuda").verdict == "contradicts"


def test_data_of_the_run(tmp_path):
    from dawnrun.dataset.demo import write_demo
    from dawnrun.dataset.index import build_index

    write_demo(tmp_path / "full", train_per_class=1, val_per_class=1)
    recipe = RECIPE.model_copy(update={"input": RECIPE.input.model_copy(update={"datasets": {"full": "full"}})})
    found = build_index(tmp_path / "full", "val").fingerprint
    started = {"data_fingerprints": {"validation": {"val": found}, "full": {"train": "0" * 64}}}
    assert verdicts(verify.check_data(recipe, tmp_path, started)) == ["confirmed", "contradicts"]
    assert verdicts(verify.check_data(recipe, tmp_path / "no", started)) == ["not checked", "not checked"]


def test_a_checkpoint_outside_the_run_is_not_taken(run, tmp_path):
    summary = summarize(run)
    row = verify.validated_row(summary)
    assert verify.checkpoint_of(run, summary, row) == run.checkpoints / f"step-{row.step:08d}"
    (tmp_path / "elsewhere").mkdir()
    astray = replace(summary, checkpoints=({"step": row.step, "path": "../elsewhere"},))
    assert verify.checkpoint_of(run, astray, row) is None
