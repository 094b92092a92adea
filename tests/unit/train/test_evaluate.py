"""Counts of a validation."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import top_k_accuracy_score

from dawnrun.recipe.schema import Recipe
from dawnrun.train.evaluate import Classifier, count_correct, evaluate
from dawnrun.train.input import Batch
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper


def recipe() -> Recipe:
    phase = {"epochs": 1, "image_size": 8, "global_batch_size": 4, "per_device_batch_size": 4}
    return Recipe(name="r", phases=[phase], lr=0.1)


def net(num_classes: int = 7) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, num_classes)
    )


def batch(n: int, num_classes: int = 7, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (n, 3, 8, 8), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, num_classes, (n,), generator=generator)
    return Batch(images=images.contiguous(memory_format=torch.channels_last), labels=labels, num_images=n, wait_s=0.0)


@given(st.integers(0, 2**32 - 1), st.integers(3, 12), st.sampled_from([1, 5]))
def test_counts_equal_scikit_learns_where_no_two_logits_tie(seed: int, num_classes: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.permuted(np.arange(20.0 * num_classes).reshape(20, num_classes), axis=1)
    labels = rng.integers(0, num_classes, 20)
    ours = int(count_correct(torch.from_numpy(logits), torch.from_numpy(labels), k))
    if k >= num_classes:
        assert ours == 20
    else:
        theirs = top_k_accuracy_score(labels, logits, k=k, labels=np.arange(num_classes), normalize=False)
        assert ours == theirs


def test_ties_count_against() -> None:
    """A constant output is right for nobody: neither top-1 nor top-5 of more than five classes."""
    logits, labels = torch.zeros(3, 6), torch.tensor([0, 3, 5])
    assert int(count_correct(logits, labels, 1)) == 0
    assert int(count_correct(logits, labels, 5)) == 0
    logits[0, 0] = 1.0
    assert int(count_correct(logits, labels, 1)) == 1


@pytest.mark.parametrize("sizes", [(10,), (3, 7), (1,) * 10])
def test_counts_do_not_depend_on_how_the_images_are_cut_into_batches(sizes: tuple[int, ...]) -> None:
    """C21: every image once, whatever the batches."""
    model, whole = net(), batch(10)
    parts = [
        Batch(images=i, labels=b, num_images=len(b), wait_s=0.0)
        for i, b in zip(whole.images.split(list(sizes)), whole.labels.split(list(sizes)), strict=True)
    ]
    stepper = Stepper(recipe(), "fp32", torch.device("cpu"))
    result = evaluate(model, parts, stepper, Peers(), flip_average=False)
    expected = evaluate(model, [whole], stepper, Peers(), flip_average=False)
    assert (result.num_images, result.top1_correct, result.top5_correct) == (
        10,
        expected.top1_correct,
        expected.top5_correct,
    )
    assert result.loss == pytest.approx(expected.loss, rel=1e-6)
    assert result.valid


def test_an_output_that_is_not_finite_makes_the_result_invalid() -> None:
    model = net()
    with torch.no_grad():
        model[3].bias[2] = float("nan")
    result = evaluate(model, [batch(4)], Stepper(recipe(), "fp32", torch.device("cpu")), Peers(), flip_average=False)
    assert not result.valid


def test_flip_average_is_the_mean_of_both_views() -> None:
    model, one = net(), batch(5)
    stepper = Stepper(recipe(), "fp32", torch.device("cpu"))
    mirrored = Batch(images=one.images.flip(3), labels=one.labels, num_images=5, wait_s=0.0)
    averaged = evaluate(model, [one], stepper, Peers(), flip_average=True)
    swapped = evaluate(model, [mirrored], stepper, Peers(), flip_average=True)
    plain = evaluate(model, [one], stepper, Peers(), flip_average=False)
    assert averaged.loss == pytest.approx(swapped.loss, rel=1e-6)
    assert averaged.loss != plain.loss


def test_the_last_layer_runs_in_fp32_under_autocast_and_training_mode_comes_back() -> None:
    model = net().train()
    stepper = Stepper(recipe(), "bf16", torch.device("cpu"))
    images = stepper.normalize(batch(4).images)
    with torch.inference_mode(), Classifier(model, stepper) as classifier:
        assert not model.training
        logits = classifier.logits(images)
        with stepper.autocast():
            features = model[:3](images)
        exact = torch.nn.functional.linear(features.float(), model[3].weight, model[3].bias)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, exact)
    assert model.training
    assert not model[3]._forward_pre_hooks
