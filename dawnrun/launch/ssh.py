"""Runs a job on hosts that ssh reaches: one connection each, an agent under a guard at the end of each."""

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dawnrun.errors import LaunchError, UsageError
from dawnrun.launch.base import Job, JobStatus, LaunchPlan, StopHow
from dawnrun.launch.facts import versions
from dawnrun.launch.guard import CUT_GRACE_S
from dawnrun.launch.local import GRACE_S
from dawnrun.launch.node import BEAT_S, EXIT_PREEMPTED, HOLD_S
from dawnrun.launch.order import Order
from dawnrun.launch.outcome import read_node
from dawnrun.launch.preflight import Facts, Finding, judge, rendezvous_address, table
from dawnrun.launch.remote import Connection, ssh_command
from dawnrun.recipe.schema import Site

ASK_S = 40.0
"""Time for all hosts to answer a question; Python and the data folders may lie on a slow disk."""
END_S = 1.0
"""Once one node has failed, time for the others to fail by themselves and say why."""


def orders(job: Job) -> list[Order]:
    """Each node's part. Host and port of the rendezvous are a guess until node 0 has been asked."""
    ssh = job.site.launcher.ssh
    assert ssh is not None
    rendezvous = f"{job.folder.parent.parent.name}-{job.folder.name}"
    address, port = ssh.host_names()[0].rpartition("@")[2], 20_000 + sum(rendezvous.encode()) % 12_000
    first = Order.of(job, rendezvous=rendezvous, address=address, port=port, grace_s=GRACE_S)
    return [replace(first, rank=rank) for rank in range(first.machines)]


class SshLauncher:
    """Holds the leases of one job on several hosts: should this process die, the guards end the job."""

    def __init__(
        self, site: Site, *, needs: Mapping[str, Any] | None = None, tell: Callable[[str], None] = print
    ) -> None:
        """`needs`: what is looked for on every host; `tell` takes remarks."""
        assert site.launcher.ssh is not None
        self._site, self._ssh, self._needs, self._tell = site, site.launcher.ssh, dict(needs or {}), tell
        self._hosts: list[Connection] = []
        self._folder: Path | None = None
        self._lost: dict[int, float] = {}
        self._bad_at: float | None = None
        self._cancelled = False
        self._beats = threading.Event()

    def plan(self, job: Job) -> LaunchPlan:
        """One ssh and one order a host."""
        texts = {str(job.folder / f"order-{order.rank}.json"): order.text() for order in orders(job)}
        return LaunchPlan(
            commands=tuple(self.command(host) for host in self._ssh.host_names()[: job.site.machines]),
            files={name: json.dumps({"order": json.loads(text)}) for name, text in texts.items()},
            inputs=tuple(texts),
            notes=(
                f"on hosts {', '.join(self._ssh.host_names()[: job.site.machines])}",
                "address and port of the rendezvous are replaced by what the first host says",
            ),
        )

    def command(self, host: str) -> tuple[str, ...]:
        """The ssh to a host."""
        return ssh_command(self._ssh, host, python=sys.executable, directory=Path.cwd())

    def submit(self, plan: LaunchPlan) -> None:
        """Ask all hosts, check what they say, give the orders. LaunchError or UsageError: nothing was started."""
        given = [Order.read(json.loads(plan.files[name])["order"]) for name in plan.inputs]
        self._folder = Path(given[0].folder)
        address, port = self.meet(self._folder, Path(given[0].logs))
        for host, order in zip(self._hosts, given, strict=True):
            host.send(json.dumps({"order": json.loads(replace(order, address=address, port=port).text())}))
            host.heard = time.monotonic()
        threading.Thread(target=self._beat, name="lease", daemon=True).start()

    def meet(self, folder: Path, logs: Path) -> tuple[str, int]:
        """Connect to all hosts, judge their answers and find where the agents can meet: address and port."""
        facts, findings, address = self.examine(folder, logs)
        fatal = [finding for finding in findings if finding.fatal]
        if fatal:
            self.close()
            wrong_interface = all("interface" in finding.what for finding in fatal)
            error = UsageError if wrong_interface else LaunchError
            raise error(f"{table(fatal)}\nnothing was started")
        for finding in findings:
            self._tell(str(finding))
        assert address is not None
        return address, int(next(iter(facts.values()))["port"])

    def examine(self, folder: Path, logs: Path) -> tuple[dict[str, dict[str, Any]], list[Finding], str | None]:
        """What the hosts say, the findings about it, and the address of the first by which all reach it."""
        facts, findings = self.ask(folder, logs)
        if any(finding.fatal for finding in findings):
            return facts, findings, None
        address = rendezvous_address(next(iter(facts.values())), self._site.interface)
        return facts, self._reach(address, facts) + findings, address

    def ask(self, folder: Path, logs: Path) -> tuple[dict[str, dict[str, Any]], list[Finding]]:
        """What each host says of itself, and what there is to say about it. `folder` must lie under the run root."""
        nonce = secrets.token_hex(16)
        (folder / "nonce").write_text(nonce, encoding="utf-8")
        names = self._ssh.host_names()[: self._site.machines]
        try:
            self._hosts = [
                Connection(name, self.command(name), logs / f"ssh-{rank}.log") for rank, name in enumerate(names)
            ]
        except OSError as error:
            raise LaunchError(f"ssh cannot be started: {error.strerror}") from error
        question = {"nonce": str(folder / "nonce"), "run_root": str(folder), **self._needs}
        answers, findings = {}, []
        for host, (facts, problem) in self._ask_all("facts", question).items():
            if problem:
                findings.append(Finding(node=host, what=problem, todo=f"try: ssh {host}"))
            else:
                answers[host] = facts
        return answers, findings + judge(answers, self._site, here=versions(), nonce=nonce)

    def _reach(self, address: str | None, facts: Mapping[str, Facts]) -> list[Finding]:
        """Whether every host reaches the port that the first one holds."""
        first, port = self._hosts[0].host, next(iter(facts.values()))["port"]
        if address is None:
            return [Finding(node=first, what="has no address but the loopback's", todo="name `interface` in the site")]
        answers = self._ask_all("reach", [address, port])
        what = f"cannot reach {address} port {port} of {first}"
        todo = "is there a firewall, or another network? name `interface` in the site"
        return [Finding(node=host, what=f"{what}: {error}", todo=todo) for host, (_, error) in answers.items() if error]

    def _ask_all(self, kind: str, question: object) -> dict[str, tuple[Any, str]]:
        """Everyone at once; answer and problem of each."""
        began, deadline = time.time(), time.monotonic() + ASK_S
        for host in self._hosts:
            host.send(json.dumps({kind: question, "rank": self._hosts.index(host)}))
        found = {}
        for host in self._hosts:
            answer, problem = host.answer(kind, deadline)
            if kind == "facts" and answer:
                # The answer was given between the question and now: how far that is outside, the clock is off.
                answer["offset_s"] = answer["time"] - min(max(answer["time"], began), time.time())
            found[host.host] = (answer, problem)
        return found

    def _beat(self) -> None:
        while not self._beats.wait(BEAT_S):
            for host in self._hosts:
                host.send("")

    def ask_long(self, kind: str, question: object) -> Iterator[Mapping[str, Any]]:
        """Give all hosts a question that they work on for a while, and beat; every answer as it comes, until all left."""
        for rank, host in enumerate(self._hosts):
            host.send(json.dumps({kind: question, "rank": rank}))
            host.heard = time.monotonic()
        threading.Thread(target=self._beat, name="lease", daemon=True).start()
        left = dict(enumerate(self._hosts))
        while left:
            time.sleep(0.05)
            for rank, host in list(left.items()):
                over = host.over()
                while (answer := host.next_answer()) is not None:
                    yield answer
                if over or host.is_silent():
                    del left[rank]
                    why = host.last_words() if over else f"nothing heard from it for {HOLD_S:g} s"
                    yield {"left": why, "rank": rank, "host": host.host}
                    host.cut()

    def status(self) -> JobStatus:
        """RUNNING until every host is done or must have ended by its lease; a node that fails ends the others.

        A machine that has evaluators alone may be lost: the training then validates by itself.
        """
        self._look_for_losses()
        training = self._hosts[: self._site.nodes]
        lost = any(rank < len(training) for rank in self._lost)
        for host in training:
            record = host.ended
            bad = record is not None and (record.get("exit_code") != 0 or record.get("reason") == "lost")
            if (bad or lost) and self._bad_at is None:
                self._bad_at = time.monotonic()
        if self._bad_at is not None and not self._cancelled and time.monotonic() - self._bad_at > END_S:
            self._send_all("now")
        if not all(self._is_over(rank) for rank in range(len(self._hosts))):
            return JobStatus.RUNNING
        codes = {host.process.returncode for host in training}
        if self._cancelled:
            return JobStatus.CANCELLED
        return JobStatus.SUCCEEDED if codes <= {0, EXIT_PREEMPTED} and not lost else JobStatus.FAILED

    def _is_over(self, rank: int) -> bool:
        """A host that cannot be heard ends its part by itself when its lease has run out."""
        host = self._hosts[rank]
        if rank in self._lost:
            assert self._folder is not None
            if read_node(self._folder, rank).get("ended"):
                return True
            return time.monotonic() - host.heard > HOLD_S + CUT_GRACE_S + 1.0
        return host.over()

    def _look_for_losses(self) -> None:
        for rank, host in enumerate(self._hosts):
            if rank in self._lost or host.ended is not None:
                continue
            if host.over() or host.is_silent():
                self._lost[rank] = time.time()
                silent = not host.over()
                why = f"nothing heard from it for {HOLD_S:g} s" if silent else host.last_words()
                if rank < self._site.nodes:
                    self._note_loss(rank, why, time.time() - (time.monotonic() - host.heard))
                else:
                    self._tell(f"host {host.host}, which has the evaluators, is lost: {why}")
                host.cut()

    def _note_loss(self, rank: int, why: str, moment: float) -> None:
        """For `outcome`: this host cannot tell why it is gone."""
        assert self._folder is not None
        fields = {"host": self._hosts[rank].host, "time": moment, "message": why}
        (self._folder / f"lost-node-{rank}.json").write_text(json.dumps(fields) + "\n", encoding="utf-8")

    def cancel(self, how: StopHow = "save") -> None:
        """An order to every guard; the second `save` or a `now` kills."""
        self._send_all("now" if how == "save" and self._cancelled else how)
        self._cancelled = self._cancelled or how != "stacks"

    def _send_all(self, order: str) -> None:
        for host in self._hosts:
            host.send(order)

    def close(self) -> None:
        """End the leases and wait for the guards to leave."""
        self._beats.set()
        for host in self._hosts:
            host.close()
        deadline = time.monotonic() + GRACE_S + END_S
        for rank, host in enumerate(self._hosts):
            while not host.over() and rank not in self._lost and time.monotonic() < deadline:
                time.sleep(0.05)
            host.cut()
            host.process.wait()
