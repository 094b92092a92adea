"""Consoles that stay plain when piped, and progress."""

import io

from rich.table import Table

from dawnrun.cli import console as module


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_piped_console_writes_no_control_characters(monkeypatch):
    """C44, also where the surroundings ask for colour."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    table = Table(title="t", show_edge=False)
    table.add_column("a", style="bold red")
    table.add_row("x" * 100)
    module.console().print(table, style="red")
    module.console().print("[red]text[/red] :smile:")
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()
    assert "x" * 100 in stream.getvalue()
    assert "[red]text[/red] :smile:" in stream.getvalue()


def test_a_terminal_gets_colour(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    module.console().print("text", style="red")
    assert "\x1b" in stream.getvalue()


def test_a_closed_stream_is_no_terminal():
    stream = io.StringIO()
    stream.close()
    assert not module.is_terminal(stream)


def test_plain_progress_is_one_line_at_once_and_one_per_interval():
    """C44, C45."""
    now, lines = [0.0], []
    bar = module.PlainProgress("copying", 2000, lines.append, lambda: now[0])
    assert lines == ["copying: 2,000 to do"]
    for _ in range(100):
        now[0] += 0.25
        bar.advance(20)
    assert lines[1:] == ["copying: 800 of 2,000 (40 %)", "copying: 1,600 of 2,000 (80 %)"]
    bar.finish()
    assert lines[-1] == "copying: 2,000 done in 25.0 s"


def test_progress_when_piped_goes_to_standard_error_alone(capsys):
    with module.progress("working", 3) as advance:
        advance()
        advance(2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("working: 3 to do\nworking: 3 done in ")


def test_progress_on_a_terminal_is_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with module.progress("[odd] name", 2) as advance:
        advance(2)
    assert "[odd] name" in stream.getvalue()
    assert "2/2" in stream.getvalue()
