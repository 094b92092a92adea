"""The recipe (what is trained) and the site (on what): every key, unit and default, each written once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from dawnrun.recipe.fields import NAME_PATTERN, Natural, Part, Percent, Positive, Rgb

Shape = Literal["constant", "linear", "cosine", "linear_cosine", "polynomial", "exponential"]


class Segment(Part):
    """One piece of a curve, over a range of epochs."""

    epochs: tuple[float, float] = Field(description="first and last epoch of the piece, from 0, fractions allowed")
    start: float = Field(ge=0, description="value at the first epoch")
    end: float = Field(ge=0, description="value at the last epoch")
    shape: Shape = Field("linear", description="how the value goes from start to end")
    power: float = Field(2.0, gt=0, description="exponent of a polynomial piece")

    @model_validator(mode="before")
    @classmethod
    def _constant_ends_as_it_starts(cls, value: Any) -> Any:
        """A constant piece need not repeat its value."""
        if isinstance(value, dict) and value.get("shape") == "constant" and "start" in value:
            return {"end": value["start"], **value}
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        """A piece has a length, and its shape can join its two values."""
        first, last = self.epochs
        if not 0 <= first < last:
            raise ValueError(f"epochs must be [first, last] with 0 <= first < last, not [{first:g}, {last:g}]")
        if self.shape == "constant" and self.start != self.end:
            raise ValueError(f"a constant piece ends where it starts, not at {self.end:g} from {self.start:g}")
        if self.shape == "exponential" and min(self.start, self.end) == 0:
            raise ValueError("an exponential piece needs start and end above 0")
        return self


def _as_curve(value: Any) -> Any:
    """A bare number is a constant curve, a bare list its segments."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | str):
        return {"constant": value}
    return {"segments": value} if isinstance(value, list | tuple) else value


class Curve(Part):
    """A value over epochs: a number, a list of segments, or one of them with `read_at`."""

    constant: float | None = Field(None, ge=0, description="one value for the whole run")
    segments: tuple[Segment, ...] = Field((), description="pieces that cover all epochs without gap or overlap")
    read_at: Literal["step_end", "step_start"] = Field(
        "step_end", description="where in a step the curve is read: at (k + 1) / n or k / n of the epoch"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        """Exactly one of the two forms must be there."""
        if (self.constant is None) == (not self.segments):
            raise ValueError("give either one number (constant) or a list of pieces (segments)")
        return self

    @model_serializer
    def _written(self) -> dict[str, Any]:
        """The form that was given, as it reads back."""
        form: dict[str, Any] = (
            {"constant": self.constant}
            if not self.segments
            else {"segments": [segment.model_dump(mode="json") for segment in self.segments]}
        )
        return {**form, "read_at": self.read_at}


AnyCurve = Annotated[Curve, BeforeValidator(_as_curve)]


class View(Part):
    """How a validation image is seen."""

    image_size: Positive | None = Field(None, description="side in pixels; left out: the phase's image_size")
    resize_px: Positive | None = Field(
        None, description="short side before the centre crop, in pixels; left out: floor(1.14 * image_size)"
    )
    rectangular: bool = Field(False, description="keep the aspect ratio: image_size is the short side")
    flip_average: bool = Field(False, description="average the logits of the image and its mirror image")

    def resolved(self, phase_image_size: int) -> "View":
        """The view with `image_size` and `resize_px` filled in; floor(1.14 * image_size) in whole numbers."""
        image_size = self.image_size or phase_image_size
        resize_px = self.resize_px or image_size * 114 // 100
        return self.model_copy(update={"image_size": image_size, "resize_px": resize_px})


class Phase(Part):
    """What the batches look like for a number of epochs; phases follow one another."""

    epochs: Positive = Field(description="number of epochs")
    image_size: Positive = Field(description="side of the training images in pixels")
    global_batch_size: Positive = Field(description="images per update, over all processes")
    per_device_batch_size: Positive = Field(description="images per forward pass on one device; what BatchNorm sees")
    dataset: str = Field("full", description="which of input.datasets is read")
    min_area_fraction: float = Field(0.08, gt=0, le=1, description="smallest crop, as a fraction of the image's area")
    validation: View = Field(View(), description="how validation images are seen in this phase")


class Model(Part):
    """The network."""

    name: Literal["resnet50"] = Field("resnet50", description="torchvision's ResNet-50 (v1.5: stride in the 3x3)")
    zero_init_residual: bool = Field(True, description="last BatchNorm scale of each block starts at zero")
    num_classes: Positive | None = Field(None, description="outputs; left out: as many as the data have classes")


class Loss(Part):
    """The loss and when it ends a run."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the label spread over all classes")
    max_consecutive_nonfinite: Positive = Field(
        10, description="steps in a row with a loss that is not finite before the run fails"
    )


class Optimizer(Part):
    """The update rule."""

    name: Literal["sgd"] = Field("sgd", description="stochastic gradient descent with momentum")
    nesterov: bool = Field(False, description="Nesterov's form of momentum")
    weight_decay: float = Field(1e-4, ge=0, description="L2 penalty added to the gradient")
    decay_batch_norm: bool = Field(False, description="apply weight_decay to BatchNorm parameters and biases too")


class Aggregation(Part):
    """How gradients are summed over processes."""

    strategy: Literal["ddp"] = Field("ddp", description="all-reduce in buckets during the backward pass")


class Input(Part):
    """Where images come from and how they are seen."""

    datasets: Mapping[str, str] = Field(
        {"full": "."}, description="name -> folder under the site's data_root that holds train/ and val/"
    )
    num_train_images: Positive | None = Field(
        None, description="training images the plan counts with; left out: counted from the data"
    )
    last_batch: Literal["fill", "drop", "continue"] = Field(
        "fill", description="an epoch's last batch: filled from the epoch's first images, dropped, or run into the next"
    )
    mean: Rgb = Field((123.675, 116.28, 103.53), description="subtracted from the pixels, 0 to 255, red green blue")
    std: Rgb = Field((58.395, 57.12, 57.375), description="pixels are divided by this, red green blue")
    flip: bool = Field(True, description="mirror training images at random")
    aspect_ratio: tuple[float, float] = Field(
        (3 / 4, 4 / 3), description="narrowest and widest crop, width over height"
    )
    decoder: Literal["auto", "dali", "vision"] = Field(
        "auto", description="what turns JPEG bytes into pixels: NVIDIA DALI, Pillow, or the fastest that is installed"
    )
    max_bad_images: Natural = Field(0, description="unreadable images replaced and counted before the run stops")


class Validation(Part):
    """When validation is done."""

    every_epochs: Positive = Field(
        1, description="validate every so many epochs, counted from from_epoch, and after the last"
    )
    from_epoch: Positive = Field(1, description="first epoch, from 1, after which validation is done")
    batch_size: Positive = Field(100, description="images per forward pass on one device")


class Checkpointing(Part):
    """When the state is saved; the last and the first that reached the target are always kept."""

    every_epochs: Positive = Field(1, description="save after every so many epochs")
    every_steps: Positive | None = Field(None, description="save after every so many steps too")
    keep: Positive = Field(2, description="how many of the newest checkpoints are kept")


class Target(Part):
    """What accuracy ends the run; all that are given must hold in one validation."""

    top5: Percent | None = Field(None, description="top-5 accuracy in percent")
    top1: Percent | None = Field(None, description="top-1 accuracy in percent")
    stop: bool = Field(True, description="end the run once the target is reached")


class Compute(Part):
    """How the arithmetic is carried out."""

    tf32: bool = Field(True, description="allow TensorFloat-32 in fp32 products on GPUs that have it")
    cudnn_benchmark: bool = Field(True, description="let cuDNN time its algorithms once per shape")


class Provenance(Part):
    """Where a recipe comes from and how complete its source is."""

    confidence: Literal["own", "complete", "partial", "guessed"] = Field(
        "own", description="own: made here; else how much of the published run is known"
    )
    published: str | None = Field(None, description="the published result and hardware")
    source: str | None = Field(None, description="where it was published")


class Recipe(Part):
    """What is trained. The machines it is trained on are in the site."""

    name: str = Field(pattern=NAME_PATTERN, description="name of the recipe, used in run folders")
    provenance: Provenance = Field(Provenance(), description="where the recipe comes from")
    phases: tuple[Phase, ...] = Field(min_length=1, description="the phases, in order")
    lr: AnyCurve = Field(description="learning rate over epochs")
    momentum: AnyCurve = Field(Curve(constant=0.9), description="momentum over epochs")
    model: Model = Field(Model(), description="the network")
    loss: Loss = Field(Loss(), description="the loss")
    optimizer: Optimizer = Field(Optimizer(), description="the update rule")
    aggregation: Aggregation = Field(Aggregation(), description="how gradients are summed")
    input: Input = Field(Input(), description="where images come from")
    validation: Validation = Field(Validation(), description="when validation is done")
    checkpoint: Checkpointing = Field(Checkpointing(), description="when the state is saved")
    target: Target = Field(Target(), description="the accuracy that ends the run")
    compute: Compute = Field(Compute(), description="how the arithmetic is carried out")
    precision: Literal["auto", "bf16", "fp16", "fp32", "fp64"] = Field(
        "auto", description="arithmetic of the forward and backward pass; fp64 is for tests of parity"
    )
    loss_scale: Annotated[float, Field(gt=0)] | Literal["dynamic"] = Field(
        "dynamic",
        description="fp16 only: a fixed factor, or dynamic (doubled after 100 clean steps, halved on overflow)",
    )
    seed: Natural = Field(0, lt=2**63, description="seed of initial weights, order and crops")
    log_every_steps: Positive = Field(10, description="steps between two lines of progress")

    @property
    def total_epochs(self) -> int:
        """Epochs of all phases."""
        return sum(phase.epochs for phase in self.phases)

    def phase_of(self, epoch: int) -> Phase:
        """The phase that epoch `epoch`, from 0, belongs to. Raises IndexError beyond the last."""
        for phase in self.phases:
            if epoch < phase.epochs:
                return phase
            epoch -= phase.epochs
        raise IndexError(f"the recipe has {self.total_epochs} epochs")


class Local(Part):
    """Processes on the machine that the command runs on."""


class Launcher(Part):
    """How processes are started; exactly one."""

    local: Local | None = Field(None, description="processes on this machine: `{}`")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        """One way of starting processes must be named."""
        if len([name for name in type(self).model_fields if getattr(self, name) is not None]) != 1:
            raise ValueError(f"name exactly one of: {', '.join(type(self).model_fields)}; for example local: {{}}")
        return self


class Site(Part):
    """What the recipe is trained on."""

    name: str = Field("this-machine", pattern=NAME_PATTERN, description="name of the site")
    launcher: Launcher = Field(Launcher(local=Local()), description="how processes are started")
    nodes: Positive = Field(1, description="machines")
    processes_per_node: Positive | Literal["auto"] = Field(
        "auto", description="processes on each machine, one per device; auto: one per accelerator, one on a CPU"
    )
    device: str = Field("auto", description="auto, cpu, or a name torch.accelerator knows (cuda, xpu, mps, ...)")
    gpu: str | None = Field(None, description="name of the accelerator, for the planner")
    usd_per_node_hour: float | None = Field(None, ge=0, description="price of one machine in USD per hour")
    threads_per_process: Positive | None = Field(
        None, description="CPU threads of each process; left out: the machine's cores over its processes"
    )
    comm_timeout_s: float = Field(120, gt=0, description="seconds before a collective operation is given up")
    hang_timeout_s: float = Field(300, gt=0, description="seconds without a step before the run is ended")
    data_root: Path = Field(Path("data"), description="folder of the data sets; relative: to the current folder")
    run_root: Path = Field(Path("runs"), description="folder that run directories are made in")
    env: Mapping[str, str] = Field({}, description="environment variables set for every process")

    @property
    def world_size(self) -> int:
        """Processes of the run; `processes_per_node` must have been resolved."""
        if self.processes_per_node == "auto":
            raise ValueError("processes_per_node is not resolved yet")
        return self.nodes * self.processes_per_node
