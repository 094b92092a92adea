"""Run summaries made by hand, for tests of reports: every value is known."""

from collections.abc import Mapping, Sequence
from typing import Any

from dawnrun.record.summary import Attempt, Crossing, EpochRow, PhaseRow, ProgressPoint, RunSummary

VAL_IMAGES = 50_000
STEPS_PER_EPOCH = 100


def spent_at(training_s: float, *, initialise: float = 0.0, validation: float = 0.0) -> dict[Any, float]:
    """Seconds per kind after `training_s` of training."""
    return {"initialise": initialise, "data_setup": 0.0, "training": training_s, "validation": validation}


def sample_epoch(number: int, hours: float, top5: float | None, **changes: Any) -> EpochRow:
    """An epoch that ended after `hours` of training with `top5` percent; top-1 is 20 points lower."""
    images = changes.get("num_val_images", VAL_IMAGES)
    top5_correct = None if top5 is None else round(top5 * images / 100)
    top1_correct = None if top5_correct is None else max(0, top5_correct - images // 5)
    view = {
        "image_size": 128, "resize_px": 146, "rectangular": False, "flip_average": False, "batch_size": 100,
        "num_processes": 8, "num_classes": 1000, "valid": True,
    }  # fmt: skip
    values: dict[str, Any] = {
        "epoch": number,
        "step": number * STEPS_PER_EPOCH,
        "phase_index": 0 if number <= 2 else 1,
        "image_size": 128 if number <= 2 else 224,
        "global_batch_size": 4096 if number <= 2 else 1792,
        "lr_last": 0.5 / number,
        "momentum_last": 0.9,
        "train_loss": 7.0 / number,
        "images": 1_281_167,
        "images_per_second": 1234.5,
        "spent": spent_at(hours * 3600, validation=10.0 * (number - 1)),
        "known_spent": spent_at(hours * 3600, validation=10.0 * number),
        "top1": None if top1_correct is None else 100 * top1_correct / images,
        "top5": None if top5_correct is None else 100 * top5_correct / images,
        "top1_correct": top1_correct,
        "top5_correct": top5_correct,
        "num_val_images": images if top5 is not None else None,
        "validation_loss": None if top5 is None else 1.25,
        "validation": view if top5 is not None else {},
    }
    return EpochRow(**(values | changes))


RECIPE: Mapping[str, Any] = {
    "name": "fastai-1x8",
    "provenance": {"confidence": "partial", "published": "2:57:28, 8 V100", "source": None},
    "phases": [],
    "lr": {
        "constant": None,
        "segments": [
            {"epochs": [0, 2], "start": 1.0, "end": 2.0, "shape": "linear", "power": 2.0},
            {"epochs": [2, 4], "start": 2.0, "end": 0.25, "shape": "cosine", "power": 2.0},
        ],
        "read_at": "step_end",
    },
    "momentum": {"constant": 0.9, "segments": [], "read_at": "step_end"},
    "model": {"name": "resnet50", "zero_init_residual": True, "num_classes": None},
    "loss": {"label_smoothing": 0.1, "max_consecutive_nonfinite": 10},
    "optimizer": {"name": "sgd", "nesterov": True, "weight_decay": 5e-5, "decay_batch_norm": False},
    "target": {"top5": 93.0, "top1": None, "stop": False},
    "seed": 7,
}


def sample(tops: Sequence[float | None] = (92.5, 93.01, 92.8, 93.4), **changes: Any) -> RunSummary:
    """A finished run whose epochs end at 0.1, 0.2, ... hours with these top-5 accuracies (C37)."""
    epochs = tuple(sample_epoch(i, i / 10, top5) for i, top5 in enumerate(tops, start=1))
    threshold = dict(changes.get("recipe", RECIPE)["target"]).get("top5")
    first = next((row for row in epochs if threshold and row.top5 is not None and row.top5 >= threshold), None)
    crossings: tuple[Crossing, ...] = ()
    if first is not None and first.top1 is not None and first.top5 is not None and first.known_spent is not None:
        crossings = tuple(
            Crossing(
                name=name, threshold={"top5": threshold}, epoch=first.epoch, step=first.step, top1=first.top1,
                top5=first.top5, spent=first.spent, known_spent=first.known_spent,
            )
            for name in ("target", "top5")
        )  # fmt: skip
    values: dict[str, Any] = {
        "path": "runs/sample",
        "run_id": "sample-20240102-030405-abcd",
        "name": "sample",
        "status": "finished",
        "reason": "all_epochs",
        "recipe": RECIPE,
        "site": {"name": "lab", "nodes": 16, "processes_per_node": 8, "gpu": "Tesla V100", "usd_per_node_hour": 24.48},
        "started": {
            "schema_version": 1,
            "world_size": 128,
            "device": "cuda",
            "device_name": "Tesla V100-SXM2-16GB",
            "precision": "fp16",
            "num_train_images": 1_281_167,
            "num_val_images": VAL_IMAGES,
            "num_classes": 1000,
            "recipe_sha256": "ab" * 32,
            "versions": {"torch": "2.14.1", "torchvision": "0.29.1", "python": "3.11.9"},
            "git_commit": "0123456789abcdef0123456789abcdef01234567",
            "machine": {"host": "node-0", "cpu": "a CPU", "cores": 96, "memory_bytes": 2**38},
            "epochs": [{"steps": STEPS_PER_EPOCH, "validates": top5 is not None} for top5 in tops],
        },
        "startup_s": {"imports_s": 4.5, "process_group_s": 1.5, "index_s": 0.5, "model_s": 0.75, "first_batch_s": 1.0},
        "total_epochs": len(tops),
        "total_steps": len(tops) * STEPS_PER_EPOCH,
        "steps_done": len(tops) * STEPS_PER_EPOCH,
        "epochs": epochs,
        "phases": tuple(sample_phases(len(tops))),
        "progress": tuple(sample_progress(len(tops))),
        "crossings": crossings,
        "attempts": (sample_attempt(1, len(tops) * STEPS_PER_EPOCH),),
        "spent": {
            "initialise": 12.0, "data_setup": 3.0, "training": len(tops) * 360.0, "validation": 10.0 * len(tops),
            "checkpoint": 4.0, "idle": 0.0,
        },
        "images_per_second": 3558.8,
        "input_wait_s": 14.4,
        "skipped_steps": 2,
        "bad_images": (),
        "checkpoints": (),
        "failures": (),
        "remarks": (),
    }  # fmt: skip
    return RunSummary(**(values | changes))


def sample_phases(num_epochs: int) -> list[PhaseRow]:
    """Two phases: epochs 1 and 2 at 128 px, the rest at 224 px."""
    bounds = [(1, min(2, num_epochs), 128, 4096), *([(3, num_epochs, 224, 1792)] if num_epochs > 2 else [])]
    return [
        PhaseRow(
            phase_index=index, first_epoch=first, last_epoch=last, image_size=size, global_batch_size=batch,
            per_device_batch_size=batch // 128, accumulate_steps=1, steps=(last - first + 1) * STEPS_PER_EPOCH,
            images=(last - first + 1) * 1_281_167, training_s=(last - first + 1) * 360.0,
            images_per_second=4000.0 - 1500 * index, input_wait_s=7.2, first_step_s=0.5,
        )
        for index, (first, last, size, batch) in enumerate(bounds)
    ]  # fmt: skip


def sample_progress(num_epochs: int) -> list[ProgressPoint]:
    """Ten windows an epoch."""
    return [
        ProgressPoint(
            step=i * 10, epoch=i / 10, training_s=i * 36.0, loss=7.0 / (1 + i / 10), lr=0.5 / (1 + i / 10),
            momentum=0.9, image_size=128 if i <= 20 else 224, images_per_second=4000.0 if i <= 20 else 2500.0,
            loss_scale=None,
        )
        for i in range(1, num_epochs * 10 + 1)
    ]  # fmt: skip


def sample_attempt(number: int, last_step: int, **changes: Any) -> Attempt:
    """One start of the run."""
    values: dict[str, Any] = {
        "number": number, "first_step": 0, "last_step": last_step, "started_utc": "2024-01-02T03:04:05.678Z",
        "ended": "finished", "world_size": 128, "lost_steps": 0, "gap_s": 0.0, "idle_s": 0.0, "changes": {},
    }  # fmt: skip
    return Attempt(**(values | changes))
