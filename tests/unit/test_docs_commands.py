"""README.md and docs/ name only commands and options that exist; what is planned says so in its line."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dawnrun.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_BUILT = "not built yet"
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OF_OTHERS = {"--init-bn0", "--max-restarts"}
"""Options of other programs that the pages speak of: fast.ai's script, torchrun."""


def commands(group: click.Command = cli, name: str = "dawnrun") -> dict[str, set[str]]:
    """Command with its subcommand -> the long options it has."""
    context = click.Context(group)
    found = {name: {option for param in group.get_params(context) for option in param.opts if option.startswith("--")}}
    if isinstance(group, click.Group):
        for inner in group.list_commands(context):
            command = group.get_command(context, inner)
            assert command is not None
            found |= commands(command, f"{name} {inner}")
    return found


KNOWN = commands()


def code(page: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of everything in back-quotes and of the lines of code blocks; an indented line goes on with the one before."""
    inside, held = False, (0, "")
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
            yield held
            held = (0, "")
        elif NOT_BUILT in line:
            continue
        elif inside and line.startswith(" ") and held[1].startswith("dawnrun "):
            held = (held[0], f"{held[1]} {line.strip()}")
        elif inside:
            yield held
            held = (number, re.split(r"(?:^| )# ", line)[0])
        else:
            yield from ((number, span) for span in re.findall(r"`([^`]+)`", line))
    yield held


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page):
    wrong = []
    for number, text in code(page):
        for call in re.split(r"(?=\bdawnrun )|\||;|&&", text):
            if call.startswith("dawnrun "):
                wrong += [f"{page.name}:{number}: {fault}" for fault in _faults(call)]
            elif text.startswith("--"):
                every = set().union(*KNOWN.values(), OF_OTHERS)
                wrong += [f"{page.name}:{number}: {option}" for option in _OPTION.findall(call) if option not in every]
    assert wrong == []


def _faults(call: str) -> Iterator[str]:
    """What a call names that does not exist."""
    words = call.split()
    name = "dawnrun"
    for word in words[1:3]:
        if f"{name} {word}" in KNOWN:
            name = f"{name} {word}"
    if len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]) and not words[1].startswith("-") and name == "dawnrun":
        yield f"no command {words[1]}"
    yield from (f"{name} {option}" for option in _OPTION.findall(call) if option not in KNOWN[name] | {"--help"})


def test_the_check_sees_what_does_not_exist():
    assert list(_faults("dawnrun recrod RUN")) == ["no command recrod"]
    assert list(_faults("dawnrun report RUN --htlm")) == ["dawnrun report --htlm"]
    assert list(_faults("dawnrun data check DIR --quik")) == ["dawnrun data check --quik"]
    assert list(_faults("dawnrun report RUN --html --audit")) == []
