"""Which images a split of a data set holds: names, labels, widths and heights, found once and cached."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetIndex:
    """One split (train or val) of a data set in class folders.

    `names[i]` is the path of image i below `folder`, with forward slashes; `labels` int32[n] index `classes`
    (sorted as text); `widths` and `heights` int32[n] are pixels as stored, orientation tags ignored.
    `fingerprint` is a SHA-256 over classes, names, sizes in bytes, widths and heights.
    """

    folder: Path
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int32]
    widths: NDArray[np.int32]
    heights: NDArray[np.int32]
    fingerprint: str
    remarks: Mapping[str, int]

    def __len__(self) -> int:
        """Number of images."""
        return len(self.names)
