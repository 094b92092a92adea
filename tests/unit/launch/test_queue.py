"""Whether a job that has ended may come back into the queue."""

import json
from pathlib import Path
from typing import Any

import pytest

from dawnrun.launch.queue import failed_on_its_nodes

KILLED = {"ended": True, "reason": "signalled", "signal": "SIGKILL", "exit_code": None}
STOPPED = {"ended": True, "reason": "interrupted", "signal": None, "exit_code": 1}
FAILED = {"ended": True, "reason": "exited", "signal": None, "exit_code": 1}
WELL = {"ended": True, "reason": "exited", "signal": None, "exit_code": 0}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([STOPPED, KILLED], True),
        ([FAILED, STOPPED], True),
        ([STOPPED, STOPPED], False),  # preempted
        ([WELL, WELL], False),
        ([FAILED], False),  # the other node is lost: Slurm puts the job back
        ([FAILED, {"ended": False}], False),
    ],
)
def test_failures_of_which_every_node_has_told(tmp_path: Path, records: list[dict[str, Any]], expected: bool) -> None:
    (tmp_path / "order.json").write_text(json.dumps({"nodes": 2, "evaluator_node": False}))
    for node, record in enumerate(records):
        (tmp_path / f"node-{node}.json").write_text(json.dumps(record))
    assert failed_on_its_nodes(tmp_path) is expected


def test_a_folder_without_an_order(tmp_path: Path) -> None:
    assert not failed_on_its_nodes(tmp_path)
