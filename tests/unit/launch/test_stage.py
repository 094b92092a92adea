"""The chain of nodes that data are staged through: one reader, each node lacking something else."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dawnrun.dataset.copies import SUMS
from dawnrun.errors import DataError
from dawnrun.launch import stage as stage_module
from dawnrun.launch.stage import StageOrder, stage


@pytest.fixture
def order(tmp_path):
    for name in ("small", "large"):
        for number in range(3):
            path = tmp_path / "shared" / name / "train" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes([number]) * (number * 3_000_000 if name == "large" else number))
    (tmp_path / "meet").mkdir()
    sources = {name: str(tmp_path / "shared" / name) for name in ("small", "large")}
    return StageOrder(folder=str(tmp_path / "meet"), nodes=3, token="secret", sources=sources, places={}, check=True)


def run(order, tmp_path):
    """All nodes as threads; what each returns or raises."""
    for path in Path(order.folder).iterdir():
        path.unlink()
    ends = {}

    def one(rank):
        places = {name: str(tmp_path / f"node{rank}" / name) for name in order.sources}
        try:
            ends[rank] = stage(replace(order, places=places), rank, lambda answer: None)
        except Exception as error:
            ends[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(order.nodes)]
    [thread.start() for thread in threads]
    [thread.join(30) for thread in threads]
    return ends


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.jpg")}


def test_a_chain_of_three(order, tmp_path, monkeypatch):
    read = []
    pieces = stage_module.pieces
    monkeypatch.setattr(stage_module, "pieces", lambda *words: read.append(list(words[2])) or pieces(*words))
    ends = run(order, tmp_path)
    assert [ends[rank]["num_copied"] for rank in range(3)] == [6, 6, 6], ends
    assert read == [[0, 1, 2], [0, 1, 2]]
    for rank in range(3):
        assert tree(tmp_path / f"node{rank}") == tree(tmp_path / "shared")
    # A new last node, one file less on the middle one, and the first complete: no more is read than they lack.
    shutil.rmtree(tmp_path / "node2" / "small")
    middle = tmp_path / "node1" / "large"
    (middle / "train" / "1.jpg").unlink()
    (middle / ".staged.json").unlink()
    middle.rename(middle.with_name(".large.unfinished"))
    read.clear()
    ends = run(order, tmp_path)
    assert [ends[rank]["num_copied"] for rank in range(3)] == [0, 1, 3], ends
    assert read == [[0, 1, 2], [1]]
    assert tree(tmp_path / "node1") == tree(tmp_path / "node2") == tree(tmp_path / "shared")
    assert len((middle / SUMS).read_text().splitlines()) == 3


def test_a_node_that_cannot(order, tmp_path):
    """Its own error is told; the others end soon, each saying that a neighbour is gone."""
    (tmp_path / "node1" / "small").mkdir(parents=True)
    (tmp_path / "node1" / "small" / "mine").write_text("")
    ends = run(order, tmp_path)
    assert isinstance(ends[1], DataError) and "was not staged by dawnrun" in str(ends[1])
    assert isinstance(ends[0], ConnectionError) and isinstance(ends[2], ConnectionError)
