"""A run of the full data set made by hand: no machine trained it. It keeps every rule of MLPerf's closed division."""

from functools import partial
from pathlib import Path
from typing import Any

from record_factory import make_script
from record_values import recipe_values, site_values

from dawnrun.record.rundir import RunDir

TOP1_CORRECT = (5_000, 20_000, 33_000, 37_900, 37_960, 38_100)
"""Of 50,000: the fifth epoch reaches 75.92 %."""


def full_size_run(folder: Path, *, late: bool = False, **changes: Any) -> RunDir:
    """Six epochs of 1,281,167 images in batches of 4,096, labelled by its name as made by hand.

    `late`: an evaluator needs half an epoch for each result, and the run stops at the first that reaches the target.
    """
    phase = {**recipe_values()["phases"][0], "epochs": 6, "image_size": 224}
    phase |= {"global_batch_size": 4096, "per_device_batch_size": 256}
    segments = [
        {"epochs": [0, 2], "start": 0.0, "end": 7.0, "shape": "linear", "power": 2.0},
        {"epochs": [2, 6], "start": 7.0, "end": 1e-4, "shape": "polynomial", "power": 2.0},
    ]
    recipe = recipe_values(
        name="made-by-hand",
        phases=[phase],
        lr={"constant": None, "segments": segments, "read_at": "step_end"},
        optimizer={"name": "sgd", "nesterov": False, "weight_decay": 5e-5, "decay_batch_norm": False},
        target={"top5": None, "top1": 75.9, "stop": False},
    )
    script = make_script(
        folder, name="made-by-hand", recipe={**recipe, **changes}, site=site_values(nodes=2, processes_per_node=8, evaluators=int(late)),
        num_train_images=1_281_167, num_val_images=50_000, num_classes=1000, window_steps=313, step_s=0.05,
    )  # fmt: skip
    script.launch()
    script.start(imports_s=30.0, data_s=5.0)
    for top1_correct in TOP1_CORRECT:
        script.train_epoch()
        counts = (top1_correct, min(50_000, top1_correct + 9_000))
        if not late:
            script.validate(*counts)
            continue
        epoch = script.freeze()
        arrives = partial(script.result, epoch, *counts, by="evaluators")
        script.window(156, arrives=arrives)
        if top1_correct >= 0.759 * 50_000:
            break
    script.finish("target_reached" if late else "all_epochs")
    return script.run
