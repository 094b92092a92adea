"""The Python environment of a run from an archive to a disk of this node: once a node and content, whole or not there.

Hundreds of processes that import torch from one shared disk are a storm of small reads; one archive is one large read.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT_NAME = "dawnrun-environments-{uid}"
NOTE = ".archive.json"
PYTHON = Path("bin/python")
CONDA_UNPACK = Path("bin/conda-unpack")
"""conda-pack's own program, which puts right the paths that are written into an environment."""
READ_BYTES = 1 << 20
FILTERS = {b"\x1f\x8b": "--gzip", b"\x28\xb5\x2f\xfd": "--zstd", b"\xfd7zXZ": "--xz", b"BZh": "--bzip2"}
"""First bytes of a compressed archive -> tar's option; it cannot tell by itself what comes through a pipe."""


def environment_python(archive: Path, root: Path | None = None) -> tuple[Path, float]:
    """The interpreter of the unpacked environment, and the seconds it took. Raises OSError, with what to do.

    `root`: a folder on a disk of this node, by default the system's for temporary files (TMPDIR).
    """
    began = time.monotonic()
    root = _own_folder(root or Path(tempfile.gettempdir()) / ROOT_NAME.format(uid=os.getuid()))
    known = archive.stat()
    note = {"archive": str(archive), "bytes": known.st_size, "mtime_ns": known.st_mtime_ns}
    place = _find(root, note) or _unpack(archive, root, note)
    python = place / PYTHON
    if not python.exists():
        raise OSError(
            f"{archive}: holds no {PYTHON}; pack the environment's folder from inside: tar -C ENV -czf FILE ."
        )
    return python, time.monotonic() - began


def _own_folder(root: Path) -> Path:
    """What others could write into is not started from."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise OSError(f"{root} belongs to another user; set TMPDIR in the site's env to a folder of your own")
    return root


def _find(root: Path, note: dict[str, object]) -> Path | None:
    """The environment that was unpacked from this very file before."""
    for path in root.glob(f"*/{NOTE}"):
        try:
            if json.loads(path.read_text(encoding="utf-8")) == note:
                return path.parent
        except (OSError, ValueError):
            continue
    return None


def _unpack(archive: Path, root: Path, note: dict[str, object]) -> Path:
    """Read the archive once, through a checksum into tar; the folder gets its name, the checksum, when it is whole."""
    aside = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=root))
    try:
        place = root / _through_tar(archive, aside)
        if (aside / CONDA_UNPACK).exists():
            subprocess.run([aside / PYTHON, aside / CONDA_UNPACK], check=True, capture_output=True)
        (aside / NOTE).write_text(json.dumps(note), encoding="utf-8")
        try:
            aside.rename(place)
        except OSError:
            if not place.is_dir():
                raise
            (aside / NOTE).replace(place / NOTE)  # the same content under another name, or another job was quicker
        return place
    except subprocess.CalledProcessError as error:
        raise OSError(f"{archive}: {error.cmd[-1]}: {error.stderr.decode(errors='replace').strip()}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _through_tar(archive: Path, folder: Path) -> str:
    digest = hashlib.sha256()
    with archive.open("rb") as file, tempfile.TemporaryFile() as said:
        piece = file.read(READ_BYTES)
        options = [option for first, option in FILTERS.items() if piece.startswith(first)]
        command = ["tar", "-x", *options, "-C", str(folder), "-f", "-"]
        tar = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said)
        assert tar.stdin is not None
        try:
            while piece:
                digest.update(piece)
                tar.stdin.write(piece)
                piece = file.read(READ_BYTES)
            tar.stdin.close()
        except BrokenPipeError:
            pass
        if tar.wait():
            said.seek(0)
            words = said.read().decode(errors="replace").strip().splitlines()
            raise OSError(f"{archive}: tar: {words[0] if words else f'ended with {tar.returncode}'}")
    return digest.hexdigest()[:32]
