"""The words of reports."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from report_samples import RECIPE, sample

from dawnrun.clock import RULES, SPAN_KINDS, elapsed_s
from dawnrun.report import words


@given(st.dictionaries(st.sampled_from(SPAN_KINDS), st.floats(0, 1e6)), st.sampled_from(RULES))
def test_parts_add_up_to_the_rule(spent, rule):
    """C36: the parts of every clock sum to it."""
    assert abs(sum(words.counted(spent, rule).values()) - elapsed_s(spent, rule)) < 1e-3


def test_percent_never_reads_as_reached():
    assert [words.percent(value) for value in (92.999, 93.0, 92.5, 100.0, None)] == [
        "92.99", "93.00", "92.50", "100.00", "-",
    ]  # fmt: skip


def test_outcomes():
    assert words.outcome(sample()).startswith("target reached: top-5 of 93 % in epoch 2 (top-5 93.01 %")
    missed = sample((92.5, 92.81, 92.6))
    assert words.outcome(missed) == "target not reached: top-5 of 93 %; best top-5 92.81 % in epoch 2 (0.19 short)"
    assert "not reached yet" in words.outcome(replace(missed, status="running"))
    assert words.outcome(sample((None,))).endswith("no top-5 measured")
    free = sample((92.5,), recipe={**RECIPE, "target": {"top5": None, "top1": None}})
    assert words.outcome(free) == "no target asked; best top-5 92.50 %, top-1 72.50 % (epoch 1)"


def test_both_accuracies_of_a_target_are_told():
    recipe = {**RECIPE, "target": {"top5": 93.0, "top1": 80.0}}
    summary = replace(sample((93.5,), recipe=recipe), crossings=())
    said = words.outcome(summary)
    assert "best top-5 93.50 % in epoch 1 (enough)" in said
    assert "best top-1 73.50 % in epoch 1 (6.50 short)" in said


def test_below_target_is_for_finished_runs():
    missed = sample((90,))
    assert words.below_target(missed)
    assert not words.below_target(replace(missed, status="interrupted"))
    assert not words.below_target(sample())


def test_views_group_equal_epochs():
    """C22: size, crop, number of images and of processes for each epoch."""
    summary = sample((90, 91, None, 92))
    large = {**summary.epochs[3].validation, "image_size": 288, "rectangular": True, "flip_average": True}
    summary = replace(summary, epochs=(*summary.epochs[:3], replace(summary.epochs[3], validation=large)))
    assert words.views(summary) == [
        ("epochs 1-2", "128 px centre crop of 146 px; 50,000 images, 8 processes"),
        ("epoch 3", "not validated"),
        (
            "epoch 4",
            "short side 288 px, rectangular of 146 px, mean of image and mirror image; 50,000 images, 8 processes",
        ),
    ]


@given(st.text())
def test_plain_text_has_no_control_characters(value):
    cleaned = words.plain(value)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cleaned)
    assert len(cleaned.splitlines()) <= 1


def test_a_run_is_judged_by_the_accuracy_it_was_asked_for():
    recipe = {**RECIPE, "target": {"top5": None, "top1": 85.0}}
    assert words.leading(sample(recipe=recipe)) == "top1"
    assert words.leading(sample()) == "top5"
    assert words.leading(sample(recipe={**RECIPE, "target": {}})) == "top5"


def test_a_run_that_failed_before_its_plan_was_recorded_has_done_nothing():
    early = replace(sample(), status="failed", reason="exit code 5", total_epochs=0, epochs=())
    assert words.status_text(early) == "not finished: failed, nothing done (exit code 5)"
