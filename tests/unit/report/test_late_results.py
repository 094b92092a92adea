"""Validation that the training does not wait for: figures are those of the frozen weights, and how late they came is told."""

import tarfile

import pytest
from record_factory import make_script
from record_values import one_phase, site_values

from dawnrun.cli.main import run as dawnrun
from dawnrun.record.summary import summarize
from dawnrun.report import rows, words
from dawnrun.report.dawnbench import dawnbench_files, entrant
from dawnrun.report.document import run_document
from dawnrun.report.tensorboard import scalars


@pytest.fixture
def run(tmp_path):
    """Epochs of ten steps of 1 s after 3 s of start-up; epoch 2 reaches the target, known in the middle of epoch 4."""
    script = make_script(tmp_path, recipe=one_phase(5), site=site_values(evaluators=2), step_s=1.0, window_steps=1)
    script.launch()
    script.start()
    script.train_epoch()
    first = script.freeze()
    script.window(4, arrives=lambda: script.result(first, 500, 800, by="evaluators", num_processes=2))
    script.train_epoch()
    second = script.freeze()
    script.train_epoch()
    script.freeze()
    script.train(4)
    script.window(1, arrives=lambda: script.result(second, 700, 950, by="evaluators", num_processes=2))
    snapshot = script.run.snapshots / "step-00000020"
    snapshot.mkdir(parents=True)
    (snapshot / "model.pt").write_bytes(b"weights")
    place = {"path": "snapshots/step-00000020", "bytes": 7, "save_s": 0.0, "sha256": "7" * 64}
    script.write("checkpoint.saved", step=20, epoch=1, why=["target"], **place)
    script.save(("last",))
    script.finish("target_reached")
    return script.run


@pytest.fixture
def summary(run):
    return summarize(run)


def test_the_time_is_that_of_the_frozen_weights(summary):
    crossing = summary.crossing()
    assert (crossing.epoch, crossing.step) == (2, 20)
    assert crossing.time_to_accuracy_s("dawnbench") == pytest.approx(23)
    assert crossing.time_to_accuracy_s("everything") == pytest.approx(38)
    assert [(row.known_step, row.top5) for row in summary.epochs] == [(14, 80.0), (35, 95.0), (None, None)]


def test_how_late_results_came_is_told(summary):
    told = [remark for remark in summary.remarks if "ILSVRC2012" not in remark]
    assert told == [
        "the training did not wait for validation: results were known 4.00 s to 15.0 s after the weights were frozen",
        "the target was reached by the weights of step 20 (epoch 2), which was known at step 35; 15 steps of the run came after them",
    ]
    assert words.status_text(summary) == "finished after 3 of 5 epochs (target reached)"
    assert "1 node, 1 process and 2 evaluators" in words.machine_text(summary)
    assert dict(rows.facts(summary))["validation"].startswith("epoch 3: not validated")


def test_other_forms(summary):
    document = run_document(summary)
    assert document["epochs"][1]["known_step"] == 35
    assert document["time_to_accuracy"]["training"]["seconds"] == pytest.approx(20)
    entry = dawnbench_files(summary, entrant("Somebody", "somebody@example.org", None), partial=True)
    assert [line.split("\t")[:2] for line in entry.tsv_text.splitlines()[1:]] == [
        ["1", "0.003611111"],
        ["2", "0.006388889"],
    ]
    assert [(at, step) for at, step, tag, _ in scalars(summary, 0.0) if tag == "val/top5"] == [(13.0, 10), (23.0, 20)]


def test_the_bundle_has_the_crossings_snapshot(run, tmp_path, capsys):
    target = tmp_path / "run.tar.gz"
    assert dawnrun(["bundle", str(run.path), "--with-checkpoint", "--output", str(target)]) == 0
    with tarfile.open(target) as archive:
        assert f"{run.path.name}/snapshots/step-00000020/model.pt" in archive.getnames()


def test_a_run_that_waits_says_nothing_of_it(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(1))
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(500, 800)
    script.finish("all_epochs")
    assert not any("did not wait" in remark for remark in summarize(script.run).remarks)


def test_validated_after_the_last_step(tmp_path):
    """validation.when: after: the same clock, and the first of all results that reaches the target."""
    recipe = {**one_phase(2), "validation": {"every_epochs": 1, "from_epoch": 1, "batch_size": 100, "when": "after"}}
    script = make_script(tmp_path, recipe=recipe, step_s=1.0)
    script.launch()
    script.start()
    for _ in range(2):
        script.train_epoch()
        script.freeze()
    script.write("span", span="validation")
    for epoch in range(2):
        script.time.pass_s(4)
        script.result(epoch, 700, 950, by="training")
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert summary.crossing().time_to_accuracy_s("dawnbench") == pytest.approx(13)
    assert summary.crossing().time_to_accuracy_s("everything") == pytest.approx(27)
    assert any("results were known 14.0 s after the weights were frozen" in remark for remark in summary.remarks)
