"""An evaluator: a process beside the training that validates its share of the images on every snapshot."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch.distributed import (  # type: ignore[attr-defined]  # documented, though not exported by name
    DistError,
    TCPStore,
)

from dawnrun.dataset.decode import BadImage
from dawnrun.errors import LaunchError
from dawnrun.record.rundir import RunDir
from dawnrun.train.build import build_state, initial_model
from dawnrun.train.checkpoint import Checkpoint, damage, load_model, read_manifest
from dawnrun.train.data import find_data
from dawnrun.train.deferred import STORE_FILE
from dawnrun.train.entry import Worker, enter_beside
from dawnrun.train.evaluate import evaluate
from dawnrun.train.input import open_input
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper
from dawnrun.train.validation import view_of

POLL_S = 0.1
BEAT_S = 1.0
SEEN_S = 60.0
"""A snapshot that its writer has named may be seen on a shared disk this much later."""


def evaluate_snapshots(run: RunDir, attempt: int, number: int, *, device_index: int, began: float) -> None:
    """Validate this evaluator's share of every snapshot until the training is gone.

    What it counts goes to rank 0 through the store, and into `evaluator-NNN.jsonl`. Raises what stops it.
    """
    worker = enter_beside(run, attempt, began=began, number=number, device_index=device_index)
    facts = _wait_for_store(run.attempt_dir(attempt) / STORE_FILE)
    try:
        store = TCPStore(facts["address"], facts["port"], is_master=False, wait_for_workers=False)
        threading.Thread(target=_beat, args=(store.clone(), number), daemon=True).start()
        _serve(worker, store, number, str(facts["precision"]))
    except DistError:
        return  # the training has ended and its store with it


def _wait_for_store(path: Path) -> dict[str, Any]:
    """Where rank 0 listens; it says so once it has read the headers of the images, which are cached then."""
    while not path.exists():
        time.sleep(POLL_S)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _beat(store: TCPStore, number: int) -> None:
    """Tell rank 0 about once a second that this evaluator lives."""
    beats = time.time_ns()  # another start begins with another number
    try:
        while True:
            store.set(f"beat/{number}", str(beats))
            beats += 1
            time.sleep(BEAT_S)
    except DistError:
        return


def _serve(worker: Worker, store: TCPStore, number: int, precision: str) -> None:
    recipe, num_evaluators = worker.recipe.value, worker.site.evaluators
    bad_images: list[BadImage] = []
    data = find_data(worker)
    state = build_state(worker, initial_model(worker, num_classes=len(data.validation_set.classes)), precision)
    stepper = Stepper(recipe, precision, worker.device)
    batches = open_input(
        recipe,
        train_sets=data.train_sets,
        validation_set=data.validation_set,
        rank=number,
        world_size=num_evaluators,
        num_threads=worker.decode_threads,
        device=worker.device,
        on_bad_image=bad_images.append,
    )
    name = f"evaluator-{number:03d}"
    if (worker.run.events_dir(worker.attempt) / f"{name}.jsonl").exists():
        name += "-again"  # no file of events is opened twice
    log = worker.run.log(name, worker.attempt, t_s=lambda: time.perf_counter() - worker.began)
    for place, path in _snapshots(store, number):
        snapshot = _seen(path)
        if trouble := damage(snapshot):
            raise LaunchError(f"{path}: {trouble}")
        load_model(snapshot, state.bare)
        view, image_size = view_of(recipe, snapshot.epoch)
        bad_images.clear()
        result = evaluate(
            state.bare, batches.validation(view, image_size), stepper, Peers(), flip_average=view.flip_average
        )
        fields = {**asdict(result), "bad_images": [asdict(image) for image in bad_images]}
        store.set(f"result/{place}/{number}", json.dumps(fields))
        store.set(f"next/{number}", str(place + 1))
        log.write("eval.part", step=snapshot.step, epoch=snapshot.epoch, of=num_evaluators, **asdict(result))


def _snapshots(store: TCPStore, number: int) -> Iterator[tuple[int, Path]]:
    """Snapshots as they come, with their places; a second start goes on where the first one ended."""
    place = int(store.get(f"next/{number}")) if store.check([f"next/{number}"]) else 0
    while True:
        while not store.check([f"snapshot/{place}"]):
            time.sleep(POLL_S)
        yield place, Path(store.get(f"snapshot/{place}").decode())
        place += 1


def _seen(path: Path) -> Checkpoint:
    """A snapshot's manifest, once it is seen here."""
    deadline = time.monotonic() + SEEN_S
    while (found := read_manifest(path)) is None:
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{path}: not seen on this node; the run directory must be on a disk that all nodes share"
            )
        time.sleep(POLL_S)
    return found
