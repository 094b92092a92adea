"""Our event files read back by TensorBoard's own reader."""

import pytest
from record_factory import make_run

from dawnrun.record.summary import summarize
from dawnrun.report.tensorboard import file_name, scalars, tensorboard_bytes

pytest.importorskip("tensorboard", reason="tensorboard is not installed (pip install '.[test]')")


def test_every_scalar_is_read_back(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    summary = summarize(make_run(tmp_path))
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / file_name(summary)).write_bytes(tensorboard_bytes(summary))
    found = EventAccumulator(str(tmp_path / "board"), size_guidance={"scalars": 0})
    found.Reload()
    ours: dict[str, list[tuple[int, float]]] = {}
    for _, step, tag, value in scalars(summary, 0.0):
        ours.setdefault(tag, []).append((step, value))
    assert set(found.Tags()["scalars"]) == set(ours)
    for tag, points in ours.items():
        read = [(event.step, event.value) for event in found.Scalars(tag)]
        assert [step for step, _ in read] == [step for step, _ in points]
        assert [value for _, value in read] == pytest.approx([value for _, value in points], rel=1e-6)
    assert ours["val/top5"][1] == (20, 92.5)


def test_the_same_run_gives_the_same_bytes(tmp_path):
    run = make_run(tmp_path)
    assert tensorboard_bytes(summarize(run)) == tensorboard_bytes(summarize(run))
