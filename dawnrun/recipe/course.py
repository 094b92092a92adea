"""The course of a run beside its steps: when it is validated and saved, and what ends it."""

from typing import Literal

from pydantic import Field

from dawnrun.recipe.fields import Line, Part, Percent, Positive


class Validation(Part):
    """When validation is done."""

    every_epochs: Positive = Field(
        1, description="validate every so many epochs, counted from from_epoch, and after the last"
    )
    from_epoch: Positive = Field(1, description="first epoch, from 1, after which validation is done")
    at_epochs: tuple[Positive, ...] | None = Field(
        None, description="validate after these epochs, from 1, and after the last; instead of the two above"
    )
    when: Literal["during", "after"] = Field(
        "during", description="after: weights are stored during the run and validated after its last step"
    )
    batch_size: Positive = Field(100, description="images per forward pass on one device")
    blacklist_file: Line | None = Field(
        None, description="list of ILSVRC2012's validation images to leave out, below the site's data_root; none: all"
    )


class Checkpointing(Part):
    """When the state is saved; the last, the best and the first that reached the target are always kept."""

    every_epochs: Positive = Field(1, description="save after every so many epochs")
    every_steps: Positive | None = Field(None, description="save after every so many steps too")
    keep: Positive = Field(2, description="how many of the newest checkpoints are kept")
    asynchronous: bool = Field(
        True, description="write beside the steps that follow; false: training waits for the disk"
    )


class Target(Part):
    """What accuracy ends the run; all that are given must hold in one validation."""

    top5: Percent | None = Field(None, description="top-5 accuracy in percent")
    top1: Percent | None = Field(None, description="top-1 accuracy in percent")
    stop: bool = Field(True, description="end the run once the target is reached")
