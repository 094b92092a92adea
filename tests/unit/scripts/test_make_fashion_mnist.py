"""Fashion-MNIST's IDX files to class folders, on made-up files of the same form."""

import gzip
import importlib.util
import struct
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dawnrun.errors import DataError

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_fashion_mnist.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_fashion_mnist", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_idx(path: Path, values: NDArray[np.uint8]) -> None:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """50 training images, five of each class, and 20 test images; every image is a flat grey of its number."""
    folder = tmp_path / "idx"
    folder.mkdir()
    for name, count in (("train", 50), ("t10k", 20)):
        images = np.repeat(np.arange(count, dtype=np.uint8), 28 * 28).reshape(count, 28, 28)
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", (np.arange(count) % 10).astype(np.uint8))
    return folder


def test_all_test_images_and_a_subset_of_the_training_images(script: ModuleType, source: Path, tmp_path: Path) -> None:
    assert script.make(source, tmp_path / "out", train_per_class=3, seed=0)
    assert not script.make(source, tmp_path / "out", train_per_class=3, seed=0)
    for split, count in (("train", 3), ("val", 2)):
        assert sorted(path.name for path in (tmp_path / "out" / split).iterdir()) == sorted(script.CLASSES)
        for folder in (tmp_path / "out" / split).iterdir():
            files = sorted(folder.iterdir())
            assert len(files) == count
            for path in files:
                with Image.open(path) as image:
                    assert image.mode == "L" and image.size == (28, 28)
                    assert abs(int(np.asarray(image).mean()) - int(path.stem)) <= 1
                assert int(path.stem) % 10 == script.CLASSES.index(folder.name)


def test_a_subset_is_a_function_of_the_seed(script: ModuleType) -> None:
    labels = (np.arange(500) % 10).astype(np.uint8)
    small, large = script.subset(labels, 5, 0), script.subset(labels, 20, 0)
    assert len(small) == 50 and set(small) < set(large) and set(small) != set(script.subset(labels, 5, 1))


def test_too_few_images(script: ModuleType, source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="class t-shirt has 5 images, fewer than --train-per-class 6"):
        script.make(source, tmp_path / "out", train_per_class=6, seed=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("harm", ["missing", "cut", "text", "other", "mixed"])
def test_files_that_are_not_what_they_should_be(script: ModuleType, source: Path, tmp_path: Path, harm: str) -> None:
    path = source / "train-images-idx3-ubyte.gz"
    data = gzip.decompress(path.read_bytes())
    if harm == "missing":
        path.unlink()
    elif harm == "mixed":
        write_idx(path, np.zeros((49, 28, 28), np.uint8))
    else:
        new = {"cut": gzip.compress(data[:-1]), "text": b"text", "other": gzip.compress(b"\0\0\x0d\x01")}
        path.write_bytes(new[harm])
    with pytest.raises(DataError, match=r"does not exist|is cut|cannot be read|not an IDX|do not belong together"):
        script.make(source, tmp_path / "out", train_per_class=1, seed=0)
