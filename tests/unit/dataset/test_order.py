"""Order and batches: permutations, and shares that add up to the global batch for any number of processes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.dataset.order import epoch_order, images_at, micro_batches, step_images
from dawnrun.recipe.schedule import StepPlan

seeds = st.integers(0, 2**63 - 1)


def plan(*, batch: int, per_device: int, world_size: int, first: int, epoch: int = 0) -> StepPlan:
    return StepPlan(
        step=0,
        epoch=epoch,
        step_in_epoch=0,
        steps_in_epoch=1,
        phase_index=0,
        lr=0.1,
        momentum=0.9,
        image_size=32,
        global_batch_size=batch,
        per_device_batch_size=per_device,
        accumulate_steps=batch // (per_device * world_size),
        dataset="full",
        min_area_fraction=0.08,
        first_position=first,
        ends_epoch=True,
    )


@given(num_images=st.integers(1, 300), seed=seeds, epoch=st.integers(0, 1000))
def test_an_order_is_a_permutation_and_a_function_of_its_arguments(num_images: int, seed: int, epoch: int) -> None:
    order = epoch_order(num_images=num_images, seed=seed, epoch=epoch)
    assert order.dtype == np.int64 and sorted(order.tolist()) == list(range(num_images))
    epoch_order.cache_clear()
    assert epoch_order(num_images=num_images, seed=seed, epoch=epoch).tolist() == order.tolist()


def test_orders_differ_between_epochs_and_seeds() -> None:
    """C11: 40 images; epochs 0 and 1 differ."""
    orders = {tuple(epoch_order(num_images=40, seed=s, epoch=e).tolist()) for s in range(5) for e in range(5)}
    assert len(orders) == 25


def test_the_order_is_the_same_with_every_version() -> None:
    """A change here makes every resumed run another one."""
    assert epoch_order(num_images=10, seed=0, epoch=0).tolist() == [2, 8, 9, 4, 1, 6, 0, 3, 5, 7]
    assert epoch_order(num_images=5, seed=2**63 - 1, epoch=3).tolist() == [4, 0, 2, 1, 3]


def test_each_place_is_equally_likely() -> None:
    """Mean place of each of 20 images over 2,000 epochs: within 5 standard errors of the middle."""
    places = np.argsort([epoch_order(num_images=20, seed=1, epoch=epoch) for epoch in range(2000)], axis=1)
    error = np.sqrt((20**2 - 1) / 12 / 2000)
    assert np.abs(places.mean(axis=0) - 9.5).max() < 5 * error


def test_an_order_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        epoch_order(num_images=3, seed=0, epoch=0)[0] = 1


@given(
    num_images=st.integers(1, 100),
    seed=seeds,
    per_device=st.integers(1, 5),
    micro=st.integers(1, 12),
    first=st.integers(0, 99),
    last_batch=st.sampled_from(["fill", "drop", "continue"]),
)
def test_the_shares_of_any_number_of_processes_are_the_global_batch(
    num_images: int, seed: int, per_device: int, micro: int, first: int, last_batch: str
) -> None:
    batch = per_device * micro
    first = first % num_images
    images = []
    for world_size in (size for size in range(1, micro + 1) if micro % size == 0):
        step = plan(batch=batch, per_device=per_device, world_size=world_size, first=first)
        whole, epochs = step_images(step, num_images=num_images, seed=seed, last_batch=last_batch)  # type: ignore[arg-type]
        assert len(whole) == len(epochs) == batch
        images.append(whole.tolist())
        shares = [list(micro_batches(whole, step, rank=rank, world_size=world_size)) for rank in range(world_size)]
        # Micro-batch m of the step is number m // W of process m % W.
        together = [shares[m % world_size][m // world_size] for m in range(micro)]
        assert np.concatenate(together).tolist() == whole.tolist()
    assert all(each == images[0] for each in images)


def test_fill_starts_again_at_the_head_of_the_same_order() -> None:
    step = plan(batch=8, per_device=8, world_size=1, first=8, epoch=2)
    images, epochs = step_images(step, num_images=11, seed=3, last_batch="fill")
    order = epoch_order(num_images=11, seed=3, epoch=2).tolist()
    assert images.tolist() == order[8:] + order[:5] and set(epochs.tolist()) == {2}


def test_continue_goes_on_in_the_next_order() -> None:
    step = plan(batch=8, per_device=8, world_size=1, first=8, epoch=2)
    images, epochs = step_images(step, num_images=11, seed=3, last_batch="continue")
    here, there = (epoch_order(num_images=11, seed=3, epoch=epoch).tolist() for epoch in (2, 3))
    assert images.tolist() == here[8:] + there[:5] and epochs.tolist() == [2] * 3 + [3] * 5


@given(num_images=st.integers(1, 50), batch=st.integers(1, 60), seed=seeds)
def test_an_epoch_filled_holds_every_image(num_images: int, batch: int, seed: int) -> None:
    positions = np.arange(-(-num_images // batch) * batch)
    images, _ = images_at(positions, epoch=0, num_images=num_images, seed=seed, last_batch="fill")
    assert set(images.tolist()) == set(range(num_images)) and len(set(images[:num_images].tolist())) == num_images
