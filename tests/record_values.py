"""Values of a small recipe and a site, as `run.started` holds them."""

from typing import Any


def recipe_values(**changes: Any) -> dict[str, Any]:
    """Every value of a small recipe, as `run.started` holds it."""
    values: dict[str, Any] = {
        "name": "toy",
        "provenance": {"confidence": "own", "published": None, "source": None},
        "phases": [phase_values(2, 64, 32), phase_values(2, 96, 16)],
        "lr": {
            "constant": None,
            "segments": [_segment(0, 1, 0.0, 0.2), _segment(1, 4, 0.2, 0.0)],
            "read_at": "step_end",
        },
        "momentum": {"constant": 0.9, "segments": [], "read_at": "step_end"},
        "model": {"name": "resnet50", "zero_init_residual": True, "num_classes": None},
        "loss": {"label_smoothing": 0.1, "max_consecutive_nonfinite": 10},
        "optimizer": {"name": "sgd", "nesterov": True, "weight_decay": 1e-4, "decay_batch_norm": False},
        "aggregation": {"strategy": "ddp"},
        "input": {"datasets": {"full": "."}, "num_train_images": None, "last_batch": "fill", "max_bad_images": 0},
        "validation": {"every_epochs": 1, "from_epoch": 1, "batch_size": 100},
        "checkpoint": {"every_epochs": 1, "every_steps": None, "keep": 2},
        "target": {"top5": 93.0, "top1": None, "stop": True},
        "compute": {"tf32": True, "cudnn_benchmark": True},
        "precision": "fp32",
        "loss_scale": "dynamic",
        "seed": 0,
        "log_every_steps": 10,
    }
    return {**values, **changes}


def phase_values(epochs: int, image_size: int, batch_size: int) -> dict[str, Any]:
    """A phase, as a recipe holds it."""
    view = {"image_size": None, "resize_px": None, "rectangular": False, "flip_average": False}
    return {
        "epochs": epochs,
        "image_size": image_size,
        "global_batch_size": batch_size,
        "per_device_batch_size": batch_size // 2,
        "dataset": "full",
        "min_area_fraction": 0.25,
        "validation": view,
    }


def _segment(first: float, last: float, start: float, end: float) -> dict[str, Any]:
    return {"epochs": [first, last], "start": start, "end": end, "shape": "linear", "power": 2.0}


def site_values(**changes: Any) -> dict[str, Any]:
    """Every value of a site, as `run.started` holds it."""
    values = {
        "name": "this-machine",
        "launcher": {"local": {}},
        "nodes": 1,
        "processes_per_node": 1,
        "device": "cpu",
        "gpu": None,
        "usd_per_node_hour": 3.6,
        "threads_per_process": None,
        "comm_timeout_s": 120.0,
        "hang_timeout_s": 300.0,
        "data_root": "data",
        "run_root": "runs",
        "env": {},
    }
    return {**values, **changes}
