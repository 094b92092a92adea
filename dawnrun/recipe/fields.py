"""What the fields of recipes and sites are made of."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]{1,3}")


def _whole(value: Any) -> Any:
    """`4e3` is 4000: text with an exponent becomes a float, which pydantic takes as an integer if it is one."""
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


Rgb = tuple[float, float, float]
Positive = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Natural = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Word = Annotated[str, Field(pattern=r"^[^-\x00-\x20\x7f][^\x00-\x1f\x7f]*$")]
"""Text for a program's argument: one line, and never taken for an option."""
Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Text of one line."""
Percent = Annotated[float, Field(gt=0, le=100)]


class Part(BaseModel):
    """Base of every part of a recipe or site: frozen, and unknown keys are errors.

    The reader hands over every scalar of the YAML text as a `str` (or None), so that text fields keep the exact
    spelling; pydantic turns them into numbers and booleans where a field asks for one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
