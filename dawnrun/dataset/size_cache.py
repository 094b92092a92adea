"""Widths and heights of images already looked at, kept outside the data folder; never more than a shortcut."""

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.folder import Scan

_VERSION = 1


@dataclass(frozen=True, slots=True)
class SizeCache:
    """The cache of one folder: a file's entry holds while its name, size in bytes and mtime are the same."""

    cache_dir: Path
    folder: Path

    @property
    def path(self) -> Path:
        """File of this folder's cache."""
        name = hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:24]
        return self.cache_dir / f"index-v{_VERSION}-{name}.npz"

    def look_up(self, scan: Scan) -> NDArray[np.int32]:
        """Width and height of each image, int32[n, 2]; 0 where they are not known."""
        sizes = np.zeros((len(scan.names), 2), np.int32)
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                names = stored["names"].tobytes().split(b"\0")
                facts = np.stack([stored["sizes"], stored["mtimes"]], axis=1)
                known = stored["pixels"].astype(np.int32)
            if not len(names) == len(facts) == len(known) or known.shape[1:] != (2,) or known.min(initial=0) < 0:
                return sizes
        except Exception:  # noqa: BLE001 - not there yet, or damaged in any way: the headers are read again
            return sizes
        place = {name: row for row, name in enumerate(names)}
        rows = np.array([place.get(os.fsencode(name), -1) for name in scan.names])
        same = (rows >= 0) & (facts[rows] == np.stack([scan.sizes, scan.mtimes], axis=1)).all(axis=1)
        sizes[same] = known[rows[same]]
        return sizes

    def store(self, scan: Scan, sizes: NDArray[np.int32]) -> None:
        """Replace the cache, atomically; a folder that cannot be written to is no error."""
        with suppress(OSError):
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            handle, aside = tempfile.mkstemp(dir=self.cache_dir, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    names = np.frombuffer(b"\0".join(map(os.fsencode, scan.names)), np.uint8)
                    np.savez(file, names=names, sizes=scan.sizes, mtimes=scan.mtimes, pixels=sizes)
                Path(aside).replace(self.path)
            except BaseException:
                Path(aside).unlink(missing_ok=True)
                raise
