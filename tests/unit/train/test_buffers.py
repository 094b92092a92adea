"""Slots of batches: views without a copy on the CPU, and the order of copy and use with a stream of copies."""

import numpy as np
import pytest
import torch

from dawnrun.train.input.buffers import Slot, copy_stream

CPU = torch.device("cpu")


def test_images_are_a_channels_last_view_of_what_was_written() -> None:
    slot = Slot(num_bytes=3 * 4 * 5 * 6, num_images=4, device=CPU, stream=copy_stream(CPU), pinned=False)
    for count, width, height in ((4, 6, 5), (2, 3, 7), (1, 1, 1)):
        pixels, labels = slot.open(count, width, height)
        values = np.random.default_rng(count).integers(0, 256, (count, height, width, 3), np.uint8)
        pixels[:], labels[:] = values, np.arange(count)
        slot.upload(count, width, height)
        images, on_device = slot.tensors(count, width, height)
        assert images.shape == (count, 3, height, width) and images.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), values)
        assert on_device.tolist() == list(range(count)) and images.data_ptr() == pixels.ctypes.data
        slot.release()


class FakeEvent:
    """Writes down who records it, waits for it or blocks on it; the n-th event is called n."""

    log: list[str]
    count = 0

    def __init__(self, device: torch.device, *, blocking: bool) -> None:
        FakeEvent.count += 1
        self.name = f"event {FakeEvent.count}"

    def record(self, stream: "FakeStream") -> None:
        self.log.append(f"{stream.name} records {self.name}")

    def synchronize(self) -> None:
        self.log.append(f"host waits for {self.name}")


class FakeStream:
    """A stream that writes down what it is given."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_event(self, event: FakeEvent) -> None:
        self.log.append(f"{self.name} waits for {event.name}")

    def __enter__(self) -> None:
        self.log.append(f"{self.name} copies")

    def __exit__(self, *_: object) -> None:
        pass


def test_copies_and_uses_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host buffer is written after its last copy, the device buffer after its last use; no use before its copy."""
    log: list[str] = []
    FakeEvent.log, FakeEvent.count = log, 0
    trainer, copies = FakeStream("trainer", log), FakeStream("copies", log)
    monkeypatch.setattr(torch, "Event", FakeEvent)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: trainer)
    device = torch.device("meta")
    slot = Slot(num_bytes=12, num_images=1, device=device, stream=copies, pinned=False)  # type: ignore[arg-type]
    for _ in range(2):
        slot.open(1, 2, 2)
        log.append("rows are written")
        slot.upload(1, 2, 2)
        slot.tensors(1, 2, 2)
        log.append("trainer uses")
        slot.release()
    assert log == [
        "rows are written",
        "copies copies",
        "copies records event 1",
        "trainer waits for event 1",
        "trainer uses",
        "trainer records event 2",
        "host waits for event 1",
        "rows are written",
        "copies waits for event 2",
        "copies copies",
        "copies records event 3",
        "trainer waits for event 3",
        "trainer uses",
        "trainer records event 4",
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs an accelerator")
def test_batches_arrive_whole_on_a_busy_device() -> None:
    """Three slots in turn while the trainer's stream lags behind: every batch has its own values to the end."""
    device = torch.accelerator.current_accelerator() or CPU
    stream = copy_stream(device)
    slots = [
        Slot(num_bytes=3 * 64 * 64 * 64, num_images=64, device=device, stream=stream, pinned=stream is not None)
        for _ in range(3)
    ]
    busy = torch.randn(2048, 2048, device=device)
    sums = []
    for step in range(30):
        slot = slots[step % 3]
        pixels, labels = slot.open(64, 64, 64)
        pixels[:], labels[:] = step, step
        slot.upload(64, 64, 64)
        images, on_device = slot.tensors(64, 64, 64)
        for _ in range(5):
            busy = busy @ busy
            busy = busy / busy.norm()
        sums.append((images.to(torch.int64).sum(), on_device.sum()))
        slot.release()
    wanted = [(3 * 64**3 * step, 64 * step) for step in range(30)]
    assert [(int(images), int(labels)) for images, labels in sums] == wanted


def test_pixels_that_are_on_the_device_wait_for_the_trainer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`take`: copied after the last use of the device buffer, and read to the end before it returns."""
    log: list[str] = []
    FakeEvent.log, FakeEvent.count = log, 0
    trainer, copies = FakeStream("trainer", log), FakeStream("copies", log)
    monkeypatch.setattr(torch, "Event", FakeEvent)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: trainer)
    device = torch.device("meta")
    slot = Slot(num_bytes=12, num_images=1, device=device, stream=copies, pinned=False)  # type: ignore[arg-type]
    for _ in range(2):
        slot.open(1, 2, 2)
        slot.take(torch.empty(1, 2, 2, 3, dtype=torch.uint8, device=device), 1)
        slot.tensors(1, 2, 2)
        slot.release()
    first = ["copies copies", "copies records event 1", "host waits for event 1"]
    second = ["copies waits for event 2", "copies copies", "copies records event 3", "host waits for event 3"]
    assert [line for line in log if not line.startswith("trainer")] == [*first, "host waits for event 1", *second]
    assert log.index("trainer records event 2") < log.index("copies waits for event 2")
