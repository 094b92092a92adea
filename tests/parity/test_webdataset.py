"""Shards in both directions between dawnrun and the webdataset library."""

import io
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dawnrun.dataset.demo import write_demo
from dawnrun.dataset.index import build_index
from dawnrun.dataset.pack import write_shards

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns about its own imports
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed (extra: test)")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))


class Silent:
    def __enter__(self):
        return lambda number: None

    def __exit__(self, *error: object) -> None:
        pass


@pytest.mark.filterwarnings("ignore")
def test_webdataset_reads_ours(tmp_path: Path) -> None:
    write_demo(tmp_path / "set", train_per_class=2, val_per_class=1)
    write_shards(tmp_path / "set", tmp_path / "out", seed=0, shard_bytes=60_000, progress=lambda total: Silent())
    index = build_index(tmp_path / "set", "train")
    urls = sorted(str(path) for path in (tmp_path / "out").glob("train-*.tar"))
    assert len(urls) > 2
    samples = webdataset.WebDataset(urls, shardshuffle=False).decode("pil").to_tuple("__key__", "jpg", "cls")
    seen = {}
    for key, picture, label in samples:
        with Image.open(io.BytesIO(index.read(int(key)))) as image:
            assert np.array_equal(np.asarray(picture), np.asarray(image.convert("RGB")))
        seen[int(key)] = label
    assert seen == dict(enumerate(index.labels.tolist()))
    assert (tmp_path / "out/classes.txt").read_text().splitlines() == list(index.classes)


@pytest.mark.filterwarnings("ignore")
def test_we_read_webdatasets(tmp_path: Path) -> None:
    pictures = []
    for split in ("train", "val"):
        (tmp_path / "set").mkdir(exist_ok=True)
        with webdataset.ShardWriter(str(tmp_path / f"set/{split}-%06d.tar"), maxcount=3, verbose=0) as writer:
            for k in range(8):
                file = io.BytesIO()
                Image.fromarray(np.full((10 + k, 20, 3), 20 * k, np.uint8)).save(file, "JPEG")
                writer.write({"__key__": f"sample{k:03d}", "jpg": file.getvalue(), "cls": k % 3})
                pictures.append(file.getvalue())
    index = build_index(tmp_path / "set", "train")
    assert index.labels.tolist() == [k % 3 for k in range(8)] and index.heights.tolist() == list(range(10, 18))
    assert [index.read(k) for k in range(8)] == pictures[:8]
    assert index.classes == build_index(tmp_path / "set", "val").classes == ("00000", "00001", "00002")
