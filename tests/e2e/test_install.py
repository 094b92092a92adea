"""The wheel: every package and every shipped file is in it, and it works from any directory."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("configs", "dawnrun", "LICENSE", "pyproject.toml", "README.md", "setup.cfg")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that the checkout gets no build folders."""
    pytest.importorskip("setuptools", reason="the build back end is not installed")
    folder = tmp_path_factory.mktemp("source")
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if files.returncode:
        pytest.skip("not a git checkout")
    for name in files.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    code = "import setuptools.build_meta as b; print(b.build_wheel('dist'))"
    (folder / "dist").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "dist").glob("*.whl")
    return path


def test_every_package_is_listed():
    """setup.cfg lists packages by hand because one of them, dawnrun.configs, lies elsewhere."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = config["options"]["packages"].split()
    found = [".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "dawnrun").rglob("__init__.py")]
    assert sorted(listed) == sorted([*found, "dawnrun.configs"])


def test_the_wheel_holds_code_recipes_and_templates(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dawnrun").rglob("*.py")}
    shipped = [*(ROOT / "configs").rglob("*.yaml"), ROOT / "configs" / "records.csv"]
    configs = {f"dawnrun/{path.relative_to(ROOT).as_posix()}" for path in shipped}
    templates = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "dawnrun").glob("*/templates/*") if path.is_file()
    }
    assert configs, "no recipe is shipped"
    assert sources | configs | templates <= names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]


def test_the_unpacked_wheel_finds_its_recipes_from_any_directory(wheel, tmp_path):
    unpacked = tmp_path / "site-packages"
    zipfile.ZipFile(wheel).extractall(unpacked)
    code = "import dawnrun.recipe.builtin as b; print(b.configs_folder(), *b.names())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env={"PYTHONPATH": str(unpacked)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    folder, *names = done.stdout.split()
    assert folder == str(unpacked / "dawnrun" / "configs")
    assert set(names) == {path.stem for path in (ROOT / "configs" / "recipes").glob("*.yaml")}


def test_the_unpacked_wheel_finds_the_published_records(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from dawnrun.report.records import find_record; print(find_record('huawei-10m28').seconds)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "627.9098004"


def test_a_checkout_finds_them_too(tmp_path):
    """As an editable install does: `configs/` beside the package."""
    code = "import dawnrun.recipe.builtin as b; print(b.configs_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(ROOT / "configs")
