"""The network, the loss and the update rule of a recipe."""

from typing import Literal

from pydantic import Field

from dawnrun.recipe.fields import Part, Positive

IMPORT_PATTERN = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
"""`package.module:function`."""


class Model(Part):
    """The network: one of ours, or the user's own."""

    name: Literal["resnet50", "resnet50_v1"] = Field(
        "resnet50", description="ResNet-50: v1.5 (stride in the 3x3, torchvision's), or v1 (stride in the first 1x1)"
    )
    import_: str | None = Field(
        None,
        alias="import",
        pattern=IMPORT_PATTERN,
        description="the user's own network instead: package.module:function, called with num_classes",
    )
    initialization: Literal["torchvision", "small_classifier", "log_uniform_classifier", "msra_prelu"] = Field(
        "torchvision", description="initial weights; see the table of initialisations"
    )
    zero_init_residual: bool = Field(True, description="last BatchNorm scale of each block starts at zero")
    blur_pool: bool = Field(False, description="blur (1, 2, 1) before convolutions with a stride, the first left out")
    num_classes: Positive | None = Field(None, description="outputs; left out: as many as the data have classes")


class Loss(Part):
    """The loss and when it ends a run."""

    name: Literal["cross_entropy", "binary_cross_entropy"] = Field(
        "cross_entropy", description="softmax, or one sigmoid for each class, summed over the classes"
    )
    import_: str | None = Field(
        None,
        alias="import",
        pattern=IMPORT_PATTERN,
        description="the user's own loss instead: package.module:function, called with num_classes",
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the label spread over all classes")
    divide_by: Positive | None = Field(
        None, description="images that the summed loss of a batch is divided by; left out: the batch's own number"
    )
    max_consecutive_nonfinite: Positive = Field(
        10, description="steps in a row with a loss that is not finite before the run fails"
    )


class Optimizer(Part):
    """The update rule."""

    name: Literal["sgd", "lars", "lamb"] = Field(
        "sgd", description="SGD with momentum; LARS, the same with a rate for each weight; LAMB (Adam's moments)"
    )
    nesterov: bool = Field(False, description="Nesterov's form of momentum")
    lr_in_momentum: bool = Field(
        False, description="sgd and lars: momentum sums rate times gradient (TensorFlow's LARS) instead of gradients"
    )
    weight_decay: float = Field(1e-4, ge=0, description="L2 penalty added to the gradient")
    decoupled_weight_decay: bool = Field(
        False, description="sgd: weights shrink by weight_decay * lr / highest lr instead, apart from the gradient"
    )
    decay_batch_norm: bool = Field(False, description="apply weight_decay to BatchNorm parameters and biases too")
    trust_coefficient: float | None = Field(
        None, gt=0, description="lars: rate of a weight over norm of the weight / norm of its gradient"
    )
    trust_clip: tuple[float, float] | None = Field(
        None, description="lars and lamb: lowest and highest trust ratio; left out: any"
    )
    epsilon: float = Field(0.0, ge=0, description="lars: added to the norm it divides by; lamb: to Adam's root")
    beta2: float = Field(0.999, gt=0, lt=1, description="lamb: decay of the second moment; the first is momentum")
    clip_gradient_norm: float | None = Field(
        None, gt=0, description="gradients of all weights together are scaled down to this L2 norm"
    )
    clip_gradient_value: float | None = Field(None, gt=0, description="each gradient is cut to +- this value")


class Average(Part):
    """A moving average of the weights and of BatchNorm's statistics (EMA), made once per update."""

    half_life_steps: float = Field(gt=0, description="updates after which a weight's share in the average has halved")
    every_steps: Positive = Field(1, description="update the average after every so many updates")
    validate_average: bool = Field(True, description="validate the average; false: the weights that are trained")
