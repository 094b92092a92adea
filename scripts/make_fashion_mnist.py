#!/usr/bin/env python3
"""Turns Debian's package dataset-fashion-mnist (IDX files) into class folders of JPEGs that dawnrun trains on.

    apt-get install dataset-fashion-mnist
    python scripts/make_fashion_mnist.py --out data/fashion-mnist --train-per-class 1000

All 10,000 test images become val/; a fixed subset of the 60,000 training images, drawn by --seed, becomes train/.
"""

import argparse
import gzip
import io
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dawnrun.dataset.counter import bits
from dawnrun.dataset.writer import Spec, write_data_set
from dawnrun.errors import DataError

CLASSES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot",
)  # fmt: skip
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
QUALITY = 95


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes: two zero bytes, type 8, number of sizes, the sizes (big-endian), the values."""
    try:
        data = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path} does not exist\n    apt-get install dataset-fashion-mnist, or give --source") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise DataError(f"{path} is not an IDX file of bytes")
    header = 4 + 4 * data[3]
    sizes = struct.unpack(f">{data[3]}I", data[4:header]) if len(data) >= header else ()
    values = np.frombuffer(data, np.uint8, offset=min(header, len(data)))
    if not sizes or values.size != np.prod(sizes):
        raise DataError(
            f"{path} is cut: {values.size:,} values where {' x '.join(map(str, sizes)) or '?'} are announced"
        )
    return values.reshape(sizes)


def read_split(source: Path, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images uint8[n, 28, 28] and labels uint8[n] of `train` or `t10k`."""
    images = read_idx(source / f"{name}-images-idx3-ubyte.gz")
    labels = read_idx(source / f"{name}-labels-idx1-ubyte.gz")
    if images.ndim != 3 or len(images) != len(labels) or labels.max(initial=0) >= len(CLASSES):
        raise DataError(f"{source}: images and labels of {name} do not belong together")
    return images, labels


def subset(labels: NDArray[np.uint8], per_class: int, seed: int) -> NDArray[np.int64]:
    """Numbers of `per_class` images of each class, a function of seed alone; a larger subset holds a smaller one."""
    chosen = []
    for label, name in enumerate(CLASSES):
        images = np.flatnonzero(labels == label)
        if len(images) < per_class:
            raise DataError(f"class {name} has {len(images):,} images, fewer than --train-per-class {per_class:,}")
        chosen.append(images[np.argsort(bits(seed, images), kind="stable")[:per_class]])
    return np.sort(np.concatenate(chosen))


def encoded(
    split: str, images: NDArray[np.uint8], labels: NDArray[np.uint8], chosen: NDArray[np.int64]
) -> Iterator[tuple[str, bytes]]:
    """Names, with each image's number in the original, and JPEG bytes."""
    for image in chosen:
        file = io.BytesIO()
        Image.fromarray(images[image]).save(file, "JPEG", quality=QUALITY)
        yield f"{split}/{CLASSES[labels[image]]}/{image:05d}.jpg", file.getvalue()


def make(source: Path, out: Path, *, train_per_class: int, seed: int) -> bool:
    """Write the data set; False where it is there already. Raises DataError."""
    train, test = read_split(source, "train"), read_split(source, "t10k")
    chosen = subset(train[1], train_per_class, seed)

    def images() -> Iterator[tuple[str, bytes]]:
        yield from encoded("train", *train, chosen)
        yield from encoded("val", *test, np.arange(len(test[1])))

    spec: Spec = {
        "name": "fashion-mnist",
        "version": 1,
        "seed": seed,
        "train_per_class": train_per_class,
        "quality": QUALITY,
    }
    return write_data_set(out, spec=spec, images=images())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=DEBIAN_FOLDER, help="folder of the four IDX files")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--train-per-class", type=int, default=6000, help="training images of each class (1 to 6,000)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the subset")
    arguments = parser.parse_args()
    if arguments.train_per_class < 1 or arguments.seed < 0:
        parser.error("--train-per-class must be at least 1, --seed at least 0")
    try:
        is_new = make(arguments.source, arguments.out, train_per_class=arguments.train_per_class, seed=arguments.seed)
    except DataError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    print(f"{'wrote' if is_new else 'kept, complete:'} {arguments.out.absolute()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
