"""One ssh connection to one host: questions and answers in lines of JSON, then the lease of a job."""

import json
import os
import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dawnrun.launch.node import HOLD_S, MARK
from dawnrun.launch.outcome import last_lines
from dawnrun.recipe.launchers import Ssh

KEEPALIVE = (
    *("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"),
    # The end of a shared connection would take every job with it.
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
)
ENTER = 'cd "$0" && exec "$@"'


def ssh_command(ssh: Ssh, host: str, *, python: str, directory: Path) -> tuple[str, ...]:
    """The system's ssh with the node program at the other end. No value of the user's stands in it unquoted."""
    folder = str(ssh.directory or directory)
    # Also a login shell that is no POSIX shell takes this as words.
    remote = shlex.join(("sh", "-c", ENTER, folder, ssh.python or python, "-u", "-m", "dawnrun.launch.node"))
    config = () if ssh.config is None else ("-F", str(ssh.config))
    return ("ssh", "-T", *config, *KEEPALIVE, *ssh.options, "--", host, remote)


class Connection:
    """A host that was asked, and perhaps given an order."""

    def __init__(self, host: str, command: tuple[str, ...], errors: Path) -> None:
        """Start ssh; what it says on standard error goes to `errors`. Raises OSError if there is no ssh."""
        self.host, self._errors = host, errors
        self.heard = time.monotonic()
        self.ended: Mapping[str, Any] | None = None
        self._answers: queue.Queue[Mapping[str, Any]] = queue.Queue()
        with errors.open("ab") as file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which then decides
            )
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        self._reader = threading.Thread(target=self._read, name=f"ssh-{host}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard = time.monotonic()
            _, mark, text = line.decode(errors="replace").partition(MARK)
            with suppress(ValueError):
                answer = dict(json.loads(text)) if mark else {}
                if "ended" in answer:
                    self.ended = answer["ended"]
                elif answer:
                    self._answers.put(answer)

    def send(self, text: str) -> None:
        """A line; a connection that takes none is found out by its silence."""
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):
            os.write(self.process.stdin.fileno(), f"{text}\n".encode())

    def answer(self, kind: str, deadline: float) -> tuple[Any, str]:
        """What the host answers, or the error it met instead, in words; `deadline` in seconds of time.monotonic."""
        while time.monotonic() < deadline:
            with suppress(queue.Empty):
                answer = self._answers.get(timeout=0.05)
                return (answer[kind], "") if kind in answer else (None, str(answer.get("error", answer)))
            if self.process.poll() is not None and not self._reader.is_alive() and self._answers.empty():
                return None, self.last_words()
        return None, "no answer in time"

    def next_answer(self) -> Mapping[str, Any] | None:
        """An answer that has come, None if there is none yet."""
        try:
            return self._answers.get_nowait()
        except queue.Empty:
            return None

    def last_words(self) -> str:
        """What ssh or the program at the other end printed last."""
        lines = last_lines(self._errors, 3)
        return " / ".join(lines) if lines else f"ssh ended with exit code {self.process.returncode}"

    def is_silent(self) -> bool:
        """Whether nothing has been heard for as long as a living node never is silent."""
        return time.monotonic() - self.heard > HOLD_S

    def over(self) -> bool:
        """Whether ssh has ended and everything it brought has been read."""
        return self.process.poll() is not None and not self._reader.is_alive()

    def close(self) -> None:
        """End the lease by the end of the stream."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def cut(self) -> None:
        """Kill ssh; the host notices by its lease."""
        with suppress(ProcessLookupError):
            self.process.kill()
