"""What is said of imports that cannot be had."""

import pytest

from dawnrun.errors import RecipeError
from dawnrun.recipe.imported import called, imported

MODULE = """
number = 3
def build(num_classes):
    return num_classes
def broken(num_classes):
    raise ValueError("no such size")
def leaving(num_classes):
    raise SystemExit(0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module of the user's own."""
    (tmp_path / "users_own_module.py").write_text(MODULE)
    (tmp_path / "users_broken_module.py").write_text("import os\nvalue = unknown + 1\n")
    (tmp_path / "users_odd_module.py").write_text("def (\n")
    (tmp_path / "users_stale_module.py").write_text("import os\nos.no_such_thing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "users_own_module"


def test_what_is_there_is_called(module):
    assert imported("model.import", f"{module}:build")(num_classes=4) == 4
    assert called("model.import", f"{module}:build", num_classes=5) == 5


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module:build", "no_such_module cannot be imported: ModuleNotFoundError: No module named"),
        ("users_broken_module:build", r"NameError: name 'unknown' is not defined \(.*users_broken_module.py, line 2\)"),
        ("users_odd_module:build", "cannot be imported: SyntaxError"),
        (
            "users_stale_module:build",
            "cannot be imported: AttributeError: module 'os' has no attribute 'no_such_thing'",
        ),
        ("users_own_module:missing", "users_own_module has no missing"),
        ("users_own_module:number", "users_own_module:number is an int, not a function or class"),
        ("users_own_module:broken", r"failed: ValueError: no such size \(.*users_own_module.py, line 6\)"),
        ("users_own_module:leaving", "failed: SystemExit: 0"),
    ],
)
def test_what_is_not_is_one_sentence_at_the_key(module, path, words):
    with pytest.raises(RecipeError, match=f"model.import: .*{words}"):
        called("model.import", path, num_classes=1)
