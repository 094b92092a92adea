"""Windows of progress."""

import pytest
import torch

from dawnrun.recipe.schedule import StepPlan
from dawnrun.train.parts import StepParts
from dawnrun.train.peers import Peers
from dawnrun.train.progress import Progress


class Fake:
    """Stands in for state and stepper: the two numbers a window reads from them."""

    loss_scale = None

    def __init__(self) -> None:
        self.step, self.input_wait_s = 0, 0.0
        self.top1_correct: torch.Tensor | None = torch.tensor(0)
        self.parts = StepParts(torch.device("cpu"))


class Pair(Peers):
    """This process is rank 1 of two; what rank 0 has in the exchange is given."""

    def sum_(self, values: torch.Tensor) -> torch.Tensor:
        other = values.clone()
        other[-4:] = torch.tensor(
            [0.25, 0.0, 0.5, 0.0]
        )  # rank 0's input wait and own seconds, nothing in rank 1's places
        return values.add_(other)


def plan(step: int, *, phase_index: int = 0, ends_epoch: bool = False) -> StepPlan:
    return StepPlan(
        step=step,
        epoch=0,
        step_in_epoch=step,
        steps_in_epoch=100,
        phase_index=phase_index,
        lr=0.1,
        momentum=0.9,
        image_size=32,
        global_batch_size=8,
        per_device_batch_size=8,
        accumulate_steps=1,
        dataset="full",
        min_area_fraction=0.08,
        first_position=0,
        ends_epoch=ends_epoch,
    )


def windows(losses: list[float], every: int, limit: int = 3) -> list:
    now = iter(float(i) for i in range(1000))
    progress = Progress(
        torch.device("cpu"), Peers(), log_every_steps=every, max_consecutive_nonfinite=limit, now=lambda: next(now)
    )
    fake, found = Fake(), []
    for step, loss in enumerate(losses):
        this = plan(step, ends_epoch=step + 1 == len(losses))
        progress.add(torch.tensor(loss), this)
        fake.step += 1
        if progress.due(this):
            found.append(progress.flush(fake, fake, this, 0))
    return found


def test_first_step_of_a_phase_is_a_window_of_its_own_and_losses_are_means() -> None:
    found = windows([8.0, 1.0, 2.0, 3.0, 4.0, 6.0], every=2)
    assert [(w.fields["first_step"], w.fields["step"], w.fields["loss"]) for w in found] == [
        (0, 1, 8.0),
        (1, 3, 1.5),
        (3, 5, 3.5),
        (5, 6, 6.0),
    ]
    assert "first_step_s" in found[0].fields and "first_step_s" not in found[1].fields
    assert [w.fields["images"] for w in found] == [8, 16, 16, 8]


def test_losses_that_are_not_finite_are_counted_and_left_out_of_the_mean() -> None:
    """C40: a window's loss is null only if no step of it had a finite one."""
    found = windows([1.0, float("nan"), 3.0, float("inf"), float("nan")], every=2)
    assert [w.fields["loss"] for w in found] == [1.0, 3.0, None]
    assert [w.fields["nonfinite_steps"] for w in found] == [0, 1, 2]


@pytest.mark.parametrize(
    ("losses", "diverged"), [([1.0, *[float("nan")] * 3], True), ([1.0, *[float("nan")] * 2, 1.0], False)]
)
def test_a_run_of_bad_losses_diverges_also_across_windows(losses: list[float], diverged: bool) -> None:
    """C25."""
    assert windows(losses, every=2)[-1].diverged is diverged
    scattered = windows([1.0, float("nan"), 1.0, float("nan"), 1.0, float("nan"), 1.0], every=3)
    assert not any(w.diverged for w in scattered)


def test_right_answers_parts_and_spread_of_a_window() -> None:
    """Sums over processes and the window; counts stay exact beyond what fp32 holds; mixup has no count."""
    progress = Progress(torch.device("cpu"), Pair(rank=1, world_size=2), log_every_steps=1, max_consecutive_nonfinite=3)
    fake, this = Fake(), plan(0, ends_epoch=True)
    fake.step, fake.input_wait_s, fake.top1_correct = 1, 1.5, torch.tensor(2**24 + 1)
    fake.parts.begin(timed=True)
    for part in ("input", "forward", "backward", "update"):
        fake.parts.mark(part)
    progress.add(torch.tensor(1.0), this)
    fields = progress.flush(fake, fake, this, 0).fields
    assert fields["top1_correct"] == 2 * (2**24 + 1)
    assert int(fake.top1_correct) == 0 and fake.input_wait_s == 0
    assert fields["ranks"]["input_wait_s"] == {"least": 0.25, "most": 1.5, "rank": 1}
    own = fields["forward_s"] + fields["backward_s"] + fields["update_s"]
    assert fields["ranks"]["own_s"] == {"least": pytest.approx(own, abs=2e-6), "most": 0.5, "rank": 0}
    assert fields["exchange_s"] == 0.0

    fake.step, fake.top1_correct = 2, None
    progress.add(torch.tensor(1.0), this)
    fields = progress.flush(fake, fake, this, 0).fields
    assert fields["top1_correct"] is None and fields["forward_s"] is None and fields["ranks"]["own_s"] is None
