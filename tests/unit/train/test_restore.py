"""Going on from a checkpoint: damaged ones, shorter recipes, other data."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dawnrun.errors import DataError, TrainError, UsageError
from dawnrun.train.checkpoint import Checkpoint
from dawnrun.train.peers import Peers
from dawnrun.train.restore import check_unchanged, find_checkpoint

FACTS = {"data_fingerprints": {"full": {"train": "a"}, "validation": {"val": "b"}}}


def checkpoint(step: int = 10) -> Checkpoint:
    return Checkpoint(path=Path("/runs/x/checkpoints/step-00000010"), step=step, epoch=0, why=(), manifest=FACTS)


def test_the_same_data_and_a_longer_recipe_are_fine() -> None:
    check_unchanged(checkpoint(), FACTS, SimpleNamespace(total_steps=10))


def test_a_recipe_that_ends_before_the_checkpoint_is_refused() -> None:
    with pytest.raises(UsageError, match="10 steps are done and the recipe now has 9"):
        check_unchanged(checkpoint(), FACTS, SimpleNamespace(total_steps=9))


@pytest.mark.parametrize("where", ["full/train", "validation/val"])
def test_other_data_are_refused_by_name(where: str) -> None:
    name, split = where.split("/")
    other = {**FACTS["data_fingerprints"], name: {split: "changed"}}
    with pytest.raises(DataError, match=where):
        check_unchanged(checkpoint(), {"data_fingerprints": other}, SimpleNamespace(total_steps=20))


class Store:
    """A folder of checkpoints as the store tells of it."""

    folder = Path("/runs/x/checkpoints")

    def __init__(self, newest: Checkpoint | None, damaged: list[str]) -> None:
        self.found, self.aside = (newest, damaged), None

    def remove_leftovers(self) -> None: ...

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        return self.found

    def put_aside_newer_than(self, path: Path) -> None:
        self.aside = path

    def at(self, path: Path) -> Checkpoint:
        return self.found[0]


class Said(list):
    def remark(self, text: str) -> None:
        self.append(text)


def test_a_damaged_newest_is_named_and_put_aside() -> None:
    said, store = Said(), Store(checkpoint(), ["step-00000020: model.pt does not have the checksum"])
    assert find_checkpoint(store, Peers(), said) is store.found[0]
    assert said == ["damaged checkpoint not used: step-00000020: model.pt does not have the checksum"]
    assert store.aside == store.found[0].path


def test_nothing_but_damaged_ones_is_no_first_start() -> None:
    with pytest.raises(TrainError, match="every checkpoint is damaged"):
        find_checkpoint(Store(None, ["step-00000020: cut"]), Peers(), Said())


def test_no_checkpoint_is_a_first_start() -> None:
    assert find_checkpoint(Store(None, []), Peers(), Said()) is None
