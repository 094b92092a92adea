"""A Python environment from an archive: once for a content, whole or not there."""

import os
import subprocess
import tarfile

import pytest

from dawnrun.launch.unpack import environment_python


def pack(folder, archive, *options):
    subprocess.run(["tar", "-C", str(folder), "-c", *options, "-f", str(archive), "."], check=True)
    return archive


@pytest.fixture
def environment(tmp_path):
    folder = tmp_path / "env"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to("/usr/bin/env")
    (folder / "big").write_bytes(os.urandom(3 << 20))
    return folder


def folders(root):
    return sorted(path.name for path in root.iterdir())


@pytest.mark.parametrize("options", [(), ("--gzip",), ("--zstd",)])
def test_unpacked_once(environment, tmp_path, options):
    archive, root = pack(environment, tmp_path / "env.tar", *options), tmp_path / "disk"
    python, _ = environment_python(archive, root)
    assert python.is_symlink() and (python.parents[1] / "big").read_bytes() == (environment / "big").read_bytes()
    before = (python.parents[1] / "big").stat()
    assert environment_python(archive, root)[0] == python
    assert (python.parents[1] / "big").stat() == before
    assert len(folders(root)) == 1
    copy = tmp_path / "copy.tar"
    copy.write_bytes(archive.read_bytes())
    assert environment_python(copy, root)[0] == python  # by content, not by name
    assert len(folders(root)) == 1


def test_another_content(environment, tmp_path):
    archive, root = pack(environment, tmp_path / "env.tar"), tmp_path / "disk"
    first, _ = environment_python(archive, root)
    (environment / "new").write_text("new")
    pack(environment, archive)
    second, _ = environment_python(archive, root)
    assert first != second and (second.parents[1] / "new").exists() and len(folders(root)) == 2


def test_what_is_refused(environment, tmp_path, monkeypatch):
    root = tmp_path / "disk"
    archive = pack(environment, tmp_path / "env.tar", "--gzip")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:1_000_000])
    with pytest.raises(OSError, match=r"cut\.tar\.gz: tar: .*[Uu]nexpected"):
        environment_python(cut, root)
    assert folders(root) == []
    with pytest.raises(FileNotFoundError):
        environment_python(tmp_path / "none.tar", root)
    with tarfile.open(tmp_path / "other.tar", "w") as file:
        file.add(environment / "big", "big")
    with pytest.raises(OSError, match="holds no bin/python; pack the environment's folder from inside"):
        environment_python(tmp_path / "other.tar", root)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(OSError, match="belongs to another user"):
        environment_python(archive, root)
