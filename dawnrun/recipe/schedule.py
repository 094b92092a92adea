"""The schedule: what every step of a run is, as a pure function of the recipe, the image count and the world size."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlan:
    """One update. `step` and `epoch` count from 0; `first_position` is where its images start in the epoch's order."""

    step: int
    epoch: int
    step_in_epoch: int
    steps_in_epoch: int
    phase_index: int
    lr: float
    momentum: float
    image_size: int
    global_batch_size: int
    per_device_batch_size: int
    accumulate_steps: int
    dataset: str
    min_area_fraction: float
    first_position: int
    ends_epoch: bool
