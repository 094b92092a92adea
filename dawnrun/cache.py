"""Where shortcuts are kept that can always be computed again."""

import os
from pathlib import Path


def default_cache_dir() -> Path:
    """$DAWNRUN_CACHE, else dawnrun below $XDG_CACHE_HOME, else ~/.cache/dawnrun."""
    own = os.environ.get("DAWNRUN_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    # os.path's expanduser, unlike pathlib's, does not fail where a user has no home.
    return Path(shared or os.path.expanduser("~/.cache"), "dawnrun")  # noqa: PTH111
