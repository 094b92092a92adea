"""Random numbers addressed by what they are for: the same everywhere, however often and in whichever order asked."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_WEYL = 0x9E3779B97F4A7C15
"""Odd integer nearest 2**64 over the golden ratio: multiples of it are spread evenly modulo 2**64."""


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA 2014; variant 13 of Stafford): a bijection of uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def bits(*counters: ArrayLike) -> NDArray[np.uint64]:
    """64 random bits for each tuple of `counters` (integers from 0 to 2**63 - 1, broadcast against one another).

    numpy's own generators are not used because their streams may change between its versions.
    """
    state = np.zeros(1, np.uint64)
    for counter in counters:
        state = _mix(state + np.uint64(_WEYL) + _mix(np.atleast_1d(np.asarray(counter, np.uint64)) * np.uint64(_WEYL)))
    return state


def uniform(*counters: ArrayLike) -> NDArray[np.float64]:
    """A number in [0, 1) for each tuple of `counters`, a multiple of 2**-53."""
    return (bits(*counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53
