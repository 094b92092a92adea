"""Archives with the structure of ILSVRC2012's, small: class archives in one, flat validation images, development kit."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("n01440764", "n01443537", "n02119789")
TRAIN_PER_CLASS, VAL_PER_CLASS = 3, 2
# The kit numbers classes in another order than that of their names, as the real one does.
KIT_NUMBERS = {1: "n02119789", 2: "n01440764", 3: "n01443537"}


def jpeg(text: str, size: tuple[int, int] = (12, 9)) -> bytes:
    """An image of its own for each text."""
    rng = np.random.default_rng(list(text.encode()))
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


def tar(files: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def train_images(name: str) -> dict[str, bytes]:
    return {f"{name}_{k}.JPEG": jpeg(f"{name} {k}") for k in range(TRAIN_PER_CLASS)}


def val_images() -> dict[str, bytes]:
    return {f"ILSVRC2012_val_{n:08d}.JPEG": jpeg(f"val {n}") for n in range(1, len(CLASSES) * VAL_PER_CLASS + 1)}


def val_class(number: int) -> str:
    return KIT_NUMBERS[1 + (number - 1) % len(CLASSES)]


def write_archives(folder: Path) -> tuple[Path, Path]:
    """The training and the validation archive."""
    train, val = folder / "ILSVRC2012_img_train.tar", folder / "ILSVRC2012_img_val.tar"
    train.write_bytes(tar({f"{name}.tar": tar(train_images(name)) for name in CLASSES}))
    val.write_bytes(tar(val_images()))
    return train, val


def write_kit(folder: Path) -> Path:
    """The development kit, with meta.mat as MATLAB stores it: leaves and inner nodes of the tree."""
    from scipy.io import savemat

    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O"), ("num_train_images", "O")]
    synsets = np.zeros((len(KIT_NUMBERS) + 1, 1), fields)
    rows = [(float(n), wnid, "a fish", 0.0, float(TRAIN_PER_CLASS)) for n, wnid in KIT_NUMBERS.items()]
    for place, row in enumerate([*rows, (4.0, "n00001740", "entity", 3.0, 0.0)]):
        synsets[place, 0] = row
    meta = io.BytesIO()
    savemat(meta, {"synsets": synsets})
    numbers = {wnid: number for number, wnid in KIT_NUMBERS.items()}
    truth = "".join(f"{numbers[val_class(n)]}\n" for n in range(1, len(val_images()) + 1))
    below = "ILSVRC2012_devkit_t12/data"
    files = {
        f"{below}/meta.mat": meta.getvalue(),
        f"{below}/ILSVRC2012_validation_ground_truth.txt": truth.encode(),
        "ILSVRC2012_devkit_t12/readme.txt": b"",
    }
    path = folder / "ILSVRC2012_devkit_t12.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def solution_csv() -> str:
    lines = [f"ILSVRC2012_val_{n:08d},{val_class(n)} 85 1 499 272 {val_class(n)} 1 1 2 2" for n in range(6, 0, -1)]
    return "\n".join(["ImageId,PredictionString", *lines, ""])
