"""The recipe (what is trained) and the site (on what): every key, unit and default, each written once."""

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dawnrun.recipe.course import Checkpointing, Target, Validation
from dawnrun.recipe.fields import NAME_PATTERN, Natural, Part, Positive, Rgb, Word
from dawnrun.recipe.launchers import Launcher, Local
from dawnrun.recipe.method import IMPORT_PATTERN, Average, Loss, Model, Optimizer
from dawnrun.recipe.pieces import AnyCurve, Curve


class View(Part):
    """How a validation image is seen."""

    image_size: Positive | None = Field(None, description="side in pixels; left out: the phase's image_size")
    resize_px: Positive | None = Field(
        None, description="short side before the centre crop, in pixels; left out: floor(1.14 * image_size)"
    )
    rectangular: bool = Field(False, description="keep the aspect ratio: image_size is the short side")
    rectangular_batch: Positive | None = Field(
        None,
        description="fast.ai's rule: images sorted by ratio, each so many cropped to the mean of their ratios;"
        " left out: each by its own",
    )
    flip_average: bool = Field(False, description="average the logits of the image and its mirror image")

    @model_validator(mode="after")
    def _batches_are_rectangular(self) -> Self:
        """The size of a batch decides nothing about square crops."""
        if self.rectangular_batch is not None and not self.rectangular:
            raise ValueError("rectangular_batch is given, but rectangular is false; say rectangular: true")
        return self

    def resolved(self, phase_image_size: int) -> "View":
        """The view with `image_size` and `resize_px` filled in; floor(1.14 * image_size) in whole numbers."""
        image_size = self.image_size or phase_image_size
        resize_px = self.resize_px or image_size * 114 // 100
        return self.model_copy(update={"image_size": image_size, "resize_px": resize_px})


class Growth(Part):
    """Image sizes that grow inside a phase, from its `image_size`; each epoch has one size."""

    between: tuple[float, float] = Field(description="epochs of the run, from 0, between which the size grows")
    end: Positive = Field(description="side of the images from the last of them on, in pixels")
    step_px: Positive = Field(description="sizes are multiples of this many pixels, the nearest to a straight line")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        """A range of epochs, and an end that is one of the sizes."""
        first, last = self.between
        if not 0 <= first < last:
            raise ValueError(f"between must be [first, last] with 0 <= first < last, not [{first:g}, {last:g}]")
        if self.end % self.step_px:
            raise ValueError(f"end must be a multiple of step_px: {self.end} is not one of {self.step_px}")
        return self


class Phase(Part):
    """What the batches look like for a number of epochs; phases follow one another."""

    epochs: Positive = Field(description="number of epochs")
    image_size: Positive = Field(description="side of the training images in pixels")
    growth: Growth | None = Field(None, description="larger images as the phase goes on")
    global_batch_size: Positive = Field(description="images per update, over all processes")
    per_device_batch_size: Positive = Field(description="images per forward pass on one device; what BatchNorm sees")
    dataset: str = Field("full", description="which of input.datasets is read")
    min_area_fraction: float = Field(0.08, gt=0, le=1, description="smallest crop, as a fraction of the image's area")
    validation: View = Field(View(), description="how validation images are seen in this phase")

    def image_size_at(self, epoch: int) -> int:
        """Pixels in `epoch` of the run, from 0. A tie between two multiples goes to the even one, as in ffcv's code."""
        if self.growth is None:
            return self.image_size
        first, last = self.growth.between
        along = min(1.0, max(0.0, (epoch - first) / (last - first)))
        size = self.image_size + (self.growth.end - self.image_size) * along
        return round(size / self.growth.step_px) * self.growth.step_px


class Aggregation(Part):
    """How gradients are summed over processes."""

    strategy: Literal["ddp"] = Field("ddp", description="all-reduce in buckets during the backward pass")


class Input(Part):
    """Where images come from and how they are seen."""

    datasets: Mapping[str, str] = Field(
        {"full": "."}, description="name -> folder under the site's data_root that holds train/ and val/"
    )
    import_: str | None = Field(
        None,
        alias="import",
        pattern=IMPORT_PATTERN,
        description="the user's own images instead of class folders or shards: package.module:function, called with folder and split",
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
    mixup_alpha: float | None = Field(
        None, gt=0, description="mix images and labels in pairs, shares from Beta(alpha, alpha); left out: do not"
    )
    aspect_ratio: tuple[float, float] = Field(
        (3 / 4, 4 / 3), description="narrowest and widest crop, width over height"
    )
    decoder: Literal["auto", "dali", "torchvision", "vision"] = Field(
        "auto",
        description="what decodes images: NVIDIA DALI, torchvision on a GPU, Pillow, or the fastest that is there",
    )
    scaled_decoding: bool = Field(
        True, description="let vision decode JPEGs at 1/2, 1/4 or 1/8 where that has a pixel for each of the output"
    )
    max_bad_images: Natural = Field(0, description="unreadable images replaced and counted before the run stops")


class Compute(Part):
    """How the arithmetic is carried out."""

    execution: Literal["eager", "compile", "cuda_graph"] = Field(
        "eager",
        description="call by call, by torch.compile, or as CUDA graphs (one process); graphs: one for each shape",
    )
    tf32: bool = Field(True, description="allow TensorFloat-32 in fp32 products on GPUs that have it")
    cudnn_benchmark: bool = Field(True, description="let cuDNN time its algorithms once per shape")
    warm_up: bool | Literal["auto"] = Field(
        "auto", description="send every shape of batch through the network before the first step; auto: on accelerators"
    )


class Provenance(Part):
    """Where a recipe comes from and how complete its source is."""

    confidence: Literal["own", "complete", "partial", "guessed", "shrunk"] = Field(
        "own", description="own: made here; shrunk: by --shrink; else how much of the published run is known"
    )
    published: str | None = Field(None, description="the published result and hardware")
    source: str | None = Field(None, description="where it was published")
    changed: str | None = Field(None, description="how --shrink or --rescale departed from it; they write this")


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
    average: Average | None = Field(None, description="a moving average of the weights beside them")
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

    @property
    def validation_dataset(self) -> str:
        """Images are validated from the full-size set where there is one, else from the last phase's."""
        return "full" if "full" in self.input.datasets else self.phases[-1].dataset

    def phase_of(self, epoch: int) -> tuple[Phase, int]:
        """The phase that epoch `epoch`, from 0, belongs to, and its image size. Raises IndexError beyond the last."""
        end = 0
        for phase in self.phases:
            end += phase.epochs
            if epoch < end:
                return phase, phase.image_size_at(epoch)
        raise IndexError(f"the recipe has {self.total_epochs} epochs")

    @property
    def image_sizes(self) -> tuple[tuple[int, ...], ...]:
        """For each phase the sizes of its images in pixels, each once, in order of time."""
        first_epochs = accumulate((phase.epochs for phase in self.phases), initial=0)
        return tuple(
            tuple(dict.fromkeys(phase.image_size_at(epoch) for epoch in range(first, first + phase.epochs)))
            for first, phase in zip(first_epochs, self.phases, strict=False)
        )


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
    evaluators: Natural = Field(
        0, description="processes that validate beside the training, on devices left over; 0: the training validates"
    )
    evaluator_node: bool = Field(
        False,
        description="the evaluators have a machine of their own, one more than `nodes`; else devices of the first",
    )
    threads_per_process: Positive | None = Field(
        None, description="CPU threads of each process; left out: the machine's cores over its processes"
    )
    engine: tuple[str, ...] = Field(
        (), description="program that starts the processes of a node, with torchrun's arguments; left out: torchrun"
    )
    environment_archive: Path | None = Field(
        None,
        description="tar archive of a Python environment; each node unpacks it to its own disk and starts from there",
    )
    interface: Word | None = Field(
        None, description="network interface between the nodes; left out: the one on the route to the first node"
    )
    max_restarts: Natural = Field(0, description="new attempts that are started by themselves after a failure")
    comm_timeout_s: float = Field(120, gt=0, description="seconds before a collective operation is given up")
    hang_timeout_s: float = Field(300, gt=0, description="seconds without a step before the run is ended")
    data_root: Path = Field(Path("data"), description="folder of the data sets; relative: to the current folder")
    local_data_root: Path | None = Field(
        None,
        description="folder on a disk of each node that `dawnrun data stage` copies the data sets to; read instead",
    )
    run_root: Path = Field(Path("runs"), description="folder that run directories are made in")
    env: Mapping[str, str] = Field({}, description="environment variables set for every process")

    @model_validator(mode="after")
    def _hosts_for_every_node(self) -> Self:
        """The nodes of an ssh site are its hosts, or the first of them if the site says so."""
        hosts = self.launcher.ssh.host_names() if self.launcher.ssh else ()
        beside = " and one for the evaluators" if self.evaluator_node else ""
        if hosts and (self.machines > len(hosts) or ("nodes" not in self.model_fields_set and len(hosts) > 1)):
            most = len(hosts) - (self.machines - self.nodes)
            raise ValueError(
                f"nodes is {self.nodes}{beside}, but ssh.hosts lists {len(hosts)}; say nodes: {most} or fewer"
            )
        return self

    @model_validator(mode="after")
    def _evaluators_have_a_place(self) -> Self:
        """A machine for evaluators has some, and there can be another machine."""
        if self.evaluator_node and not self.evaluators:
            raise ValueError("evaluator_node is true, but evaluators is 0; say how many processes validate there")
        if self.evaluator_node and self.launcher.local is not None:
            raise ValueError("evaluator_node is true, but the launcher is local, which has this machine alone")
        return self

    def without_evaluators(self) -> Self:
        """The same for a job that needs none."""
        return self.model_copy(update={"evaluators": 0, "evaluator_node": False})

    @property
    def machines(self) -> int:
        """Machines of the run, that of the evaluators among them."""
        return self.nodes + self.evaluator_node

    @property
    def read_root(self) -> Path:
        """Folder below which processes read the data sets."""
        return self.local_data_root or self.data_root

    @property
    def world_size(self) -> int:
        """Processes of the run; `processes_per_node` must have been resolved."""
        if self.processes_per_node == "auto":
            raise ValueError("processes_per_node is not resolved yet")
        return self.nodes * self.processes_per_node
