"""The memory that batches take: as much as is allocated, and refused where the machine has less."""

from pathlib import Path

import pytest
import torch

from dawnrun.dataset import memory
from dawnrun.dataset.memory import NUM_BUFFERS, available_bytes, buffer_bytes, training_capacity, validation_capacity
from dawnrun.errors import LaunchError
from dawnrun.launch.checks import check_memory
from dawnrun.recipe.reader import Document, read_text
from dawnrun.recipe.schema import Recipe
from dawnrun.train.input.ahead import ReadAhead

TEXT = """\
name: toy
phases:
  - {epochs: 1, image_size: 128, global_batch_size: 64, per_device_batch_size: 64}
  - {epochs: 1, image_size: 288, global_batch_size: 16, per_device_batch_size: 16, validation: {rectangular: true}}
lr: 0.1
validation: {batch_size: 20}
"""


@pytest.fixture
def document() -> Document[Recipe]:
    return read_text(TEXT, Recipe, source="toy.yaml")


def test_room_for_the_largest_of_all_batches(document: Document[Recipe]) -> None:
    training, validation = training_capacity(document.value), validation_capacity(document.value)
    assert training == (16 * 288**2, 64)  # more pixels in the second phase, more labels in the first
    assert validation == (20 * 288 * 384, 20)
    each = 3 * 16 * 288**2 + 8 * 64 + 3 * 20 * 288 * 384 + 8 * 20
    assert buffer_bytes(document.value) == NUM_BUFFERS * each


def test_what_is_said_is_what_is_allocated(document: Document[Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = []
    empty = torch.empty

    def counted(number: int, *, dtype: torch.dtype, pin_memory: bool) -> torch.Tensor:
        allocated.append(number * dtype.itemsize)
        return empty(number, dtype=dtype, pin_memory=pin_memory)

    monkeypatch.setattr(torch, "empty", counted)
    for capacity in (training_capacity(document.value), validation_capacity(document.value)):
        ReadAhead(None, capacity=capacity, device=torch.device("cpu"))  # type: ignore[arg-type]
    assert sum(allocated) == buffer_bytes(document.value)


def test_what_a_machine_has_left(tmp_path: Path) -> None:
    assert available_bytes(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:   5000 kB\n")
    assert available_bytes(tmp_path, tmp_path) == 5_120_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 200\nactive_file 9\n")
    assert available_bytes(tmp_path, tmp_path) == 5_120_000
    (tmp_path / "memory.max").write_text("1000\n")
    assert available_bytes(tmp_path, tmp_path) == 500  # files that were read do not count


def test_too_little_is_refused(document: Document[Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 2 * buffer_bytes(document.value)
    for available in (None, needed):
        monkeypatch.setattr(memory, "available_bytes", lambda available=available: available)
        check_memory(document, 2)
    monkeypatch.setattr(memory, "available_bytes", lambda: needed - 1)
    with pytest.raises(
        LaunchError, match=r"toy.yaml: batches of 2 processes need .* lower phases\[\].per_device_batch_size"
    ):
        check_memory(document, 2)
