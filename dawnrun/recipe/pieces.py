"""Curves in a recipe: what a rate is over epochs, as it is written."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from dawnrun.recipe.fields import Part

Shape = Literal["constant", "linear", "cosine", "linear_cosine", "polynomial", "exponential", "steps"]


class Segment(Part):
    """One piece of a curve, over a range of epochs."""

    epochs: tuple[float, float] = Field(description="first and last epoch of the piece, from 0, fractions allowed")
    start: float = Field(ge=0, description="value at the first epoch")
    end: float = Field(ge=0, description="value at the last epoch; left out where a constant or steps piece says it")
    shape: Shape = Field("linear", description="how the value goes from start to end")
    power: float = Field(2.0, gt=0, description="exponent of a polynomial piece")
    at: tuple[float, ...] = Field((), description="steps piece: epochs, rising, at which the value is multiplied")
    factor: float = Field(0.1, gt=0, description="steps piece: what the value is multiplied by at each of them")

    @model_validator(mode="before")
    @classmethod
    def _end_that_follows(cls, value: Any) -> Any:
        """A constant or steps piece need not say where it ends."""
        if not isinstance(value, dict) or "start" not in value or "end" in value:
            return value
        if value.get("shape") == "constant":
            return {"end": value["start"], **value}
        if value.get("shape") == "steps":
            try:
                start, factor = float(value["start"]), float(value.get("factor", 0.1))
                return {**value, "end": stepped(start, factor, len(value.get("at", ())))}
            except (TypeError, ValueError, OverflowError):  # told by the checks of the fields themselves
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
        if self.shape == "steps":
            self._check_steps()
        elif self.at:
            raise ValueError(f"at belongs to a piece of shape steps, not {self.shape}")
        return self

    def _check_steps(self) -> None:
        """Steps lie inside the piece, one after another, and lead to its end."""
        if not self.at or list(self.at) != sorted(set(self.at)):
            raise ValueError("a steps piece needs at: epochs in rising order, for example at: [30, 60, 80]")
        if not self.epochs[0] < self.at[0] <= self.at[-1] < self.epochs[1]:
            raise ValueError(f"at must lie inside the piece, between {self.epochs[0]:g} and {self.epochs[1]:g}")
        reached = stepped(self.start, self.factor, len(self.at))
        # Rescaled curves multiply both ends, which rounds each by itself.
        if not math.isclose(self.end, reached, rel_tol=1e-9):
            raise ValueError(f"these steps lead to {reached:g}, not {self.end:g}; leave end out")


def stepped(start: float, factor: float, times: int) -> float:
    """`start` multiplied by `factor` so many times."""
    return float(start * factor**times)


class Mirror(Part):
    """Dynamic momentum: `high` where the learning rate is lowest, `low` where it is highest, straight in between."""

    low: float = Field(ge=0, description="value at the highest learning rate of the run")
    high: float = Field(ge=0, description="value at the lowest learning rate of the run")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """The bounds are two, and in order."""
        if self.low >= self.high:
            raise ValueError(f"low must be below high, not {self.low:g} and {self.high:g}")
        return self


def _as_curve(value: Any) -> Any:
    """A bare number is a constant curve, a bare list its segments."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | str):
        return {"constant": value}
    return {"segments": value} if isinstance(value, list | tuple) else value


class Curve(Part):
    """A value over epochs: a number, a list of segments, or one of them with `read_at`; or a mirror of the rate."""

    constant: float | None = Field(None, ge=0, description="one value for the whole run")
    segments: tuple[Segment, ...] = Field((), description="pieces that cover all epochs without gap or overlap")
    mirror: Mirror | None = Field(None, description="momentum only: follow lr the other way round, between two bounds")
    read_at: Literal["step_end", "step_start"] = Field(
        "step_end", description="where in a step the curve is read: at (k + 1) / n or k / n of the epoch"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        """Exactly one of the forms must be there."""
        if (self.constant is not None) + bool(self.segments) + (self.mirror is not None) != 1:
            raise ValueError(
                "give either one number (constant), a list of pieces (segments) or, for momentum, a mirror"
            )
        if self.mirror is not None and "read_at" in self.model_fields_set and self.read_at != "step_end":
            raise ValueError("a mirror follows lr, so it is read where lr is: leave read_at out")
        return self

    @model_serializer
    def _written(self) -> dict[str, Any]:
        """The form that was given, as it reads back."""
        if self.mirror is not None:
            return {"mirror": self.mirror.model_dump(mode="json")}
        form: dict[str, Any] = (
            {"constant": self.constant}
            if not self.segments
            else {"segments": [_written_segment(segment) for segment in self.segments]}
        )
        return {**form, "read_at": self.read_at}


def _written_segment(segment: Segment) -> dict[str, Any]:
    """A piece with the keys of its own shape; recipes of other shapes keep the text and the hash they had."""
    steps_only = None if segment.shape == "steps" else {"at", "factor"}
    return segment.model_dump(mode="json", exclude=steps_only)


AnyCurve = Annotated[Curve, BeforeValidator(_as_curve)]
