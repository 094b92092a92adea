"""What a reader must know beside the figures."""

from record_factory import make_run, make_script
from record_values import one_phase

from dawnrun.record.summary import summarize


def test_five_classes_never_claim_top5(tmp_path):
    recipe = {"target": {"top5": 93.0, "top1": 60.0, "stop": False}}
    summary = summarize(make_run(tmp_path, accuracies=[(700, 1000)], recipe=recipe, num_classes=5))
    assert [crossing.name for crossing in summary.crossings] == ["top1"]
    assert "top-5 means nothing with 5 classes: it claims no target" in summary.remarks


def test_ten_classes_make_top5_no_test(tmp_path):
    summary = summarize(make_run(tmp_path, num_classes=10))
    assert summary.crossing() is not None
    assert "top-5 tests little with 10 classes: 50 % is reached by guessing" in summary.remarks


def test_remarks_name_what_a_reader_must_know(tmp_path):
    """C19, C22, C24: other data, other validation size, skipped steps."""
    script = make_script(tmp_path, recipe=one_phase(3), num_train_images=320)
    script.launch()
    script.start()
    for epoch in range(3):
        script.window(5, skipped_steps=epoch)
        script.train_epoch()
        script.validate(500, 900, image_size=64 if epoch == 1 else 128, flip_average=epoch == 2)
    for _ in range(2):
        script.write(
            "data.bad_image", path="train/a/x.jpg", class_name="a", reason="cut", split="train", rank=0, replaced_by="y"
        )
    script.write("checkpoint.failed", step=30, epoch=2, path="checkpoints/x", bytes=5, error="No space left on device")
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert summary.remarks == (
        "not the full ILSVRC2012 set (30 classes, 320 and 1,000 images)",
        "validated at 128 px after training at 64 px in epochs 1, 3",
        "validated with the mean of each image and its mirror image in epoch 3",
        "3 steps skipped because gradients overflowed",
        "1 unreadable image replaced by others",
        "the checkpoint of step 30 was not saved: No space left on device",
    )
    assert (summary.skipped_steps, len(summary.bad_images), summary.failures[0]["kind"]) == (3, 1, "checkpoint.failed")


def test_the_full_set_carries_no_remark(tmp_path):
    settings = {"num_classes": 1000, "num_train_images": 1_281_167, "num_val_images": 50_000, "window_steps": 100_000}
    assert summarize(make_run(tmp_path, accuracies=[(35_000, 46_500)], **settings)).remarks == ()


def test_attempts_on_sites_of_different_prices(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    script.kill()
    script.site["usd_per_node_hour"] = 7.2
    script.launch()
    script.start()
    script.kill()
    summary = summarize(script.run)
    assert summary.usd_per_hour == 7.2
    assert "the attempts ran on sites of different prices: costs are at the price of the last one" in summary.remarks


def test_validation_without_blacklisted_images_is_said(tmp_path):
    ilsvrc = {"num_classes": 1000, "num_train_images": 1_281_167}
    made = make_run(tmp_path / "made", accuracies=[], **ilsvrc, num_val_images=48_238)
    assert "validated without the blacklisted images: 48,238 remain" in summarize(made).remarks
    view = make_run(tmp_path / "view", recipe={"validation": {"blacklist_file": "b.txt"}}, num_val_images=1000)
    assert "validated without the blacklisted images (b.txt): 1,000 remain" in summarize(view).remarks
