"""How many validation images the printed accuracies of an entry fit: every one must be k / N."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

FULL = 50_000
WHOLE_SETS = {
    FULL: "all of them",
    48_238: "without the 1,762 images of the 2014 blacklist",
    48_240: "without the blacklist, filled to a multiple of 16",
    49_152: "48 batches of 1,024",
    49_920: "390 batches of 128",
    50_176: "49 batches of 1,024: padded",
    48_128: "47 batches of 1,024",
    48_640: "95 batches of 512",
}
"""Sizes that published runs validated on, with how each comes about (the better known first: it wins a tie)."""
PARTS = {6_250: "one of eight processes' share", 4_096: "one batch"}
"""Sizes of a part of the set, as runs measured in early epochs."""
MOST, SOME = Decimal("0.7"), Decimal("0.3")
FLOAT32_NOISE = Decimal("0.000015")
"""Percent: what a value near 100 loses as a float32."""
MAX_UNDECIDABLE_DECIMALS = 2
"""At two decimals every size up to 10,000 and far beyond fits every value."""

Accuracies = Sequence[tuple[Decimal, Decimal]]
"""Top-1 and top-5 of each row, percent, with as many digits as were printed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """`text`: sizes and the share of rows that fit, None where undecidable; `note`: what must be said about it."""

    text: str | None
    note: str


def infer(rows: Accuracies) -> Validation:
    """The number of validation images that rows of printed accuracies fit."""
    if not rows:
        return Validation(text=None, note="no accuracies to infer the number of validation images from")
    decimals = max(_decimals(top5) for _, top5 in rows)
    if decimals <= MAX_UNDECIDABLE_DECIMALS:
        note = f"with {decimals} decimals the number of validation images cannot be told"
        return Validation(text=None, note=note)
    fitting = {size: sum(fits(a, size) and fits(b, size) for a, b in rows) for size in (*WHOLE_SETS, *PARTS)}
    best = max(WHOLE_SETS, key=fitting.__getitem__)
    sizes = [size for size in (best, *PARTS) if fitting[size] >= MOST * len(rows)]
    if sizes:
        text = "; ".join(f"{size} ({fitting[size]}/{len(rows)} rows)" for size in sizes)
        return Validation(text=text, note=_note(sizes, fitting, len(rows)))
    if fitting[best] >= SOME * len(rows):
        text = f"mixed, mostly {best} ({fitting[best]}/{len(rows)} rows)"
        note = (
            f"rows fit different numbers of validation images, most {best:,} ({WHOLE_SETS[best]}); the form is {FULL:,}"
        )
        return Validation(text=text, note=note)
    note = "the accuracies fit no known number of validation images: averages over batches, or another set"
    return Validation(text=None, note=note)


def fits(accuracy: Decimal, size: int) -> bool:
    """Whether a printed percentage can be k / size, within half a unit of its last digit or float32 noise."""
    correct = (accuracy * size / 100).to_integral_value(rounding=ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-_decimals(accuracy))
    return abs(correct * 100 / size - accuracy) <= max(unit * Decimal("0.51"), FLOAT32_NOISE)


def _decimals(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def _note(sizes: Sequence[int], fitting: dict[int, int], num_rows: int) -> str:
    """Empty where the full set was used throughout."""
    whole = [size for size in sizes if size in WHOLE_SETS]
    parts = [size for size in sizes if size in PARTS]
    said = []
    if whole and whole[0] != FULL:
        said.append(f"accuracies fit {whole[0]:,} validation images ({WHOLE_SETS[whole[0]]}), not {FULL:,}")
    said += [
        f"{fitting[size]} of {num_rows} rows also fit {size:,} images ({PARTS[size]}): measured on a part"
        for size in parts
    ]
    return "; ".join(said)
