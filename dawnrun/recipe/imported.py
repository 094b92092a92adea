"""What a recipe imports of the user's own: `package.module:function`, found and called, every failure in one sentence."""

import importlib
import traceback
from collections.abc import Callable
from typing import Any

from dawnrun.errors import Problem, RecipeError


def imported(key: str, path: str) -> Callable[..., Any]:
    """The function or class that a recipe's `key` names; modules are looked for where Python does. RecipeError at the key."""
    module_name, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except AttributeError as error:
        if error.name != name:
            raise refused(key, f"{module_name} cannot be imported: {told(error)}") from error
        raise refused(key, f"{module_name} has no {name}") from None
    except (Exception, SystemExit) as error:
        raise refused(key, f"{module_name} cannot be imported: {told(error)}") from error
    if not callable(found):
        raise refused(key, f"{path} is {a(found)}, not a function or class")
    made: Callable[..., Any] = found
    return made


def called(key: str, path: str, **arguments: Any) -> Any:
    """What it returns for these arguments. RecipeError at the key if it raises."""
    build = imported(key, path)
    try:
        return build(**arguments)
    except (Exception, SystemExit) as error:
        raise refused(key, f"{path}({', '.join(arguments)}) failed: {told(error)}") from error


def refused(key: str, message: str) -> RecipeError:
    """The error for something imported that is of no use."""
    return RecipeError([Problem(key=key, message=message)], subject="the recipe")


def a(value: object) -> str:
    """`a list`, `an int`, `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def told(error: BaseException) -> str:
    """The error and the last line of the user's own that led to it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in frame.filename]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
