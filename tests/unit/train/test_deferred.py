"""Results of snapshots: joined over shares, given out in order, missed when their evaluators are gone."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import TCPStore

from dawnrun.dataset.decode import BadImage
from dawnrun.errors import TrainError
from dawnrun.train import deferred
from dawnrun.train.checkpoint import Checkpoint, load_model, read_manifest
from dawnrun.train.deferred import STORE_FILE, Deferred, Evaluators, join
from dawnrun.train.evaluate import EvalResult
from dawnrun.train.snapshots import Snapshots


def result(num_images: int, top1: int, top5: int, *, loss: float = 1.0, valid: bool = True) -> EvalResult:
    return EvalResult(
        num_images=num_images, top1_correct=top1, top5_correct=top5, loss=loss, valid=valid, eval_s=float(num_images)
    )


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


@pytest.fixture
def snapshots(tmp_path: Path, model: torch.nn.Module) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", model.state_dict(), classes=("a", "b"))


class Answers:
    """Results that a test hands out."""

    def __init__(self) -> None:
        self.given: dict[int, Path] = {}
        self.known: dict[int, EvalResult] = {}
        self.reason: str | None = None

    def hand_over(self, number: int, snapshot: Checkpoint) -> None:
        self.given[number] = snapshot.path

    def joined(self, number: int) -> tuple[EvalResult, list[BadImage]] | None:
        return (self.known[number], []) if number in self.known else None

    def lost(self) -> str | None:
        return self.reason


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.floats(0, 9)), min_size=1, max_size=60),
    st.integers(1, 5),
)
def test_shares_joined_equal_the_whole(images: list[tuple[int, int, float]], num_shares: int) -> None:
    """However the images are shared out, the counts are those of all, and the loss is their mean."""
    whole = [result(n, min(n, k), n, loss=loss) for n, k, loss in images]
    shares = [join(whole[place::num_shares]) for place in range(num_shares) if whole[place::num_shares]]
    found, expected = join(shares), join(whole)
    assert (found.num_images, found.top1_correct, found.top5_correct) == (
        expected.num_images, expected.top1_correct, expected.top5_correct,
    )  # fmt: skip
    assert found.loss == pytest.approx(sum(n * loss for n, _, loss in images) / sum(n for n, _, _ in images))


def test_one_share_with_outputs_that_are_not_finite_spoils_the_whole() -> None:
    assert not join([result(3, 1, 2), result(3, 1, 2, valid=False)]).valid


def test_a_snapshot_holds_the_weights_of_its_moment(snapshots: Snapshots, model: torch.nn.Module) -> None:
    """Training goes on at once, and changes the weights in place."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    snapshots.take(step=5, epoch=0, extra={"weights": "model"})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    snapshots.finish()
    (written,) = snapshots.written()
    other = torch.nn.Linear(3, 2)
    load_model(written, other)
    assert all(torch.equal(other.state_dict()[name], value) for name, value in before.items())
    assert (written.step, written.epoch, written.why) == (5, 0, ("snapshot",))


def test_a_disk_that_refuses_a_snapshot_ends_the_run(snapshots: Snapshots) -> None:
    """Weights that could not be stored will never be validated."""
    snapshots.folder.write_text("in the way")
    snapshots.take(step=5, epoch=0, extra={})
    snapshots.finish()
    with pytest.raises(TrainError, match="a snapshot that was to be validated could not be written"):
        snapshots.written()


def test_results_come_out_in_the_order_of_their_steps(snapshots: Snapshots) -> None:
    answers = Answers()
    waiting = Deferred(snapshots, answers)
    for epoch in range(3):
        waiting.submit(step=10 * epoch + 10, epoch=epoch, extra={})
    assert waiting.waits()
    assert sorted(answers.given) == [0, 1, 2]
    answers.known = {2: result(9, 3, 5), 1: result(9, 2, 5)}
    assert waiting.arrived() == []
    answers.known[0] = result(9, 1, 5)
    assert [(snapshot.step, found.top1_correct) for snapshot, found, _ in waiting.arrived()] == [
        (10, 1), (20, 2), (30, 3),
    ]  # fmt: skip
    assert not waiting.waits()


def test_what_lost_evaluators_leave_is_left_for_the_training(snapshots: Snapshots) -> None:
    answers = Answers()
    waiting = Deferred(snapshots, answers)
    waiting.submit(step=10, epoch=0, extra={})
    snapshots.finish()
    answers.reason = "evaluator 0 ended twice"
    assert waiting.arrived() == []
    assert waiting.lost == "evaluator 0 ended twice"
    waiting.submit(step=20, epoch=1, extra={})
    assert not waiting.waits()
    assert [snapshot.step for snapshot in waiting.left()] == [10, 20]
    assert waiting.left() == []


def test_the_best_and_the_crossing_stay(snapshots: Snapshots) -> None:
    waiting = Deferred(snapshots, None)
    for epoch in range(5):
        waiting.submit(step=epoch + 1, epoch=epoch, extra={})
    found = waiting.left()
    for snapshot, value, crosses in zip(found, (3, 5, 4, 7, 6), (False, True, False, False, False), strict=True):
        waiting.settle(snapshot, value=value, crosses=crosses)
    assert sorted(path.name for path in snapshots.folder.iterdir()) == ["step-00000002", "step-00000004"]


def test_a_later_attempt_takes_up_what_has_no_result_and_was_not_gone_back_behind(snapshots: Snapshots) -> None:
    waiting = Deferred(snapshots, None)
    for epoch in range(4):
        waiting.submit(step=10 * epoch + 10, epoch=epoch, extra={})
    first, *_ = waiting.left()
    waiting.settle(first, value=1, crosses=True)
    (snapshots.folder / ".step-00000050.77").mkdir()
    answers = Answers()
    taken = Deferred(snapshots, answers).take_up(up_to_step=30)
    assert [snapshot.step for snapshot in taken] == [20, 30]
    assert [path.name for path in answers.given.values()] == ["step-00000020", "step-00000030"]
    names = sorted(path.name for path in snapshots.folder.iterdir())
    assert names == ["step-00000010", "step-00000020", "step-00000030"]


@pytest.fixture
def evaluators(tmp_path: Path) -> Iterator[tuple[Evaluators, TCPStore, Path]]:
    served = Evaluators(tmp_path, 2, address="127.0.0.1", facts={"precision": "fp32"})
    said = json.loads((tmp_path / STORE_FILE).read_text())
    assert said["precision"] == "fp32"
    yield served, TCPStore(said["address"], said["port"], is_master=False, wait_for_workers=False), tmp_path


def test_counts_travel_through_the_store(evaluators: tuple[Evaluators, TCPStore, Path], snapshots: Snapshots) -> None:
    served, client, _ = evaluators
    snapshots.take(step=5, epoch=0, extra={})
    snapshots.finish()
    (snapshot,) = snapshots.written()
    served.hand_over(0, snapshot)
    assert read_manifest(Path(client.get("snapshot/0").decode())) is not None
    bad = BadImage(path="a.jpg", class_name="a", reason="cut short", split="val")
    client.set("result/0/0", json.dumps({**asdict(result(5, 2, 3)), "bad_images": [asdict(bad)]}))
    assert served.joined(0) is None
    client.set("result/0/1", json.dumps({**asdict(result(4, 1, 3)), "bad_images": []}))
    found = served.joined(0)
    assert found is not None
    assert (found[0].num_images, found[0].top1_correct, found[0].top5_correct) == (9, 3, 6)
    assert found[1] == [bad]


def test_an_evaluator_is_lost_by_silence_or_by_its_second_end(
    evaluators: tuple[Evaluators, TCPStore, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, client, folder = evaluators
    assert served.lost() is None
    client.set("beat/0", "1")
    client.set("beat/1", "1")
    assert served.lost() is None
    monkeypatch.setattr(deferred, "LOST_S", -1.0)
    client.set("beat/0", "2")
    assert served.lost() == "nothing was heard from evaluator 1 for 0 s"
    monkeypatch.undo()
    assert served.lost() is None
    (folder / "evaluator-001.lost").touch()
    assert served.lost() == "evaluator 1 ended twice; its log says why"


def test_what_lies_behind_the_crossing_is_dropped(snapshots: Snapshots) -> None:
    answers = Answers()
    waiting = Deferred(snapshots, answers)
    for epoch in range(3):
        waiting.submit(step=epoch + 1, epoch=epoch, extra={})
    waiting.waits()
    answers.known = {0: result(9, 9, 9)}
    ((first, _, _),) = waiting.arrived()
    waiting.settle(first, value=9, crosses=True)
    waiting.forget()
    assert [path.name for path in snapshots.folder.iterdir()] == ["step-00000001"]
