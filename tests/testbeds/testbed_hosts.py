"""Hosts with addresses, names and links of their own on this machine, for tests; needs root and network namespaces.

A host is a set of namespaces (network, pid, mount, host name, ipc) on a bridge, with an sshd. The file system is shared
but for the folders that a host is given as its own. What runs on a host is seen from outside in /proc.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PROGRAMS = ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "/usr/sbin/sshd")
# The first process of a host: it reaps orphans, and all that runs there ends with it.
FIRST = """
hostname "$1"; mount --make-rprivate /; mount --bind "$2/etc-hosts" /etc/hosts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/sshd; own=$2; shift 2
for folder; do mkdir -p "$folder"; mount -t tmpfs tmpfs "$folder"; done
trap '' TERM INT HUP
/usr/sbin/sshd -f "$own/sshd_config" -E "$own/sshd.log" && touch "$own/booted"
while :; do sleep 3600 & wait $!; done
"""


def why_not() -> str:
    """Why hosts cannot be made here; empty if they can."""
    if os.getuid() != 0:
        return "hosts of a testbed need root"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"hosts of a testbed need {', '.join(missing)} (.ci/run installs them)"
    if any(line.startswith("root:!") for line in Path("/etc/shadow").read_text().splitlines()):
        return "sshd refuses root here: its password is locked by '!' in /etc/shadow"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else "namespaces are not allowed here"


def call(*command: str, check: bool = True) -> str:
    """Run a program; what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Hosts:
    """`count` hosts called node1, node2, ... until `down`."""

    def __init__(self, folder: Path, count: int = 2, own_folders: dict[int, list[Path]] | None = None) -> None:
        """Boot them all. `own_folders`: host number -> folders that only this host sees."""
        self.folder, self.count = folder, count
        self.tag, self.subnet = f"dr{os.getpid() % 100_000}", f"10.{60 + os.getpid() % 150}.{os.getpid() // 150 % 250}"
        self.own_folders = own_folders or {}
        self.ssh_config = folder / "ssh_config"
        self._first: dict[int, subprocess.Popen[bytes]] = {}
        self._write_files()
        call("ip", "link", "add", f"{self.tag}b", "type", "bridge")
        call("ip", "addr", "add", f"{self.subnet}.1/24", "dev", f"{self.tag}b")
        call("ip", "link", "set", f"{self.tag}b", "up")
        for number in self.numbers:
            self._plug(number)
        self.boot()

    @property
    def numbers(self) -> range:
        return range(1, self.count + 1)

    def address(self, number: int) -> str:
        return f"{self.subnet}.{10 + number}"

    def _own(self, number: int) -> Path:
        return self.folder / f"node{number}"

    def _write_files(self) -> None:
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key"))
        known, config = "", ""
        for number in self.numbers:
            own, address = self._own(number), self.address(number)
            own.mkdir()
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(own / "host_key"))
            known += f"{address} {(own / 'host_key.pub').read_text()}"
            config += (
                f"Host node{number}\n  HostName {address}\n  User root\n  IdentityFile {self.folder}/key\n"
                f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known\n  StrictHostKeyChecking yes\n"
                "  GlobalKnownHostsFile /dev/null\n  LogLevel ERROR\n"
            )
            (own / "sshd_config").write_text(
                f"ListenAddress {address}\nHostKey {own}/host_key\nPidFile {own}/sshd.pid\nStrictModes no\n"
                f"AuthorizedKeysFile {self.folder}/key.pub\nPasswordAuthentication no\nUsePAM no\nUseDNS no\n"
                "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nPrintMotd no\n"
            )
            names = "".join(f"{self.address(other)} node{other}\n" for other in self.numbers)
            (own / "etc-hosts").write_text(f"127.0.0.1 localhost\n{self.subnet}.1 head\n{names}")
        (self.folder / "known").write_text(known)
        self.ssh_config.write_text(config)

    def _plug(self, number: int) -> None:
        space, link = f"{self.tag}n{number}", f"{self.tag}v{number}"
        call("ip", "netns", "add", space)
        call("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        call("ip", "link", "set", link, "master", f"{self.tag}b", "up")
        call("ip", "-n", space, "link", "set", "lo", "up")
        call("ip", "-n", space, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        call("ip", "-n", space, "link", "set", "eth0", "up")

    def boot(self) -> None:
        """Start the hosts that are down, plug in all cables, wait until ssh answers."""
        for number in self.numbers:
            call("ip", "link", "set", f"{self.tag}v{number}", "up")
            if number not in self._first:
                own = self._own(number)
                (own / "booted").unlink(missing_ok=True)
                private = [str(path) for path in self.own_folders.get(number, [])]
                self._first[number] = subprocess.Popen(
                    ["ip", "netns", "exec", f"{self.tag}n{number}", "unshare", "--fork", "--kill-child", "--pid",
                     "--mount-proc", "--mount", "--uts", "--ipc", "bash", "-c", FIRST, "first", f"node{number}",
                     str(own), *private],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
        for number in self.numbers:
            wait_for(lambda number=number: (self._own(number) / "booted").exists(), 15, f"node{number}")
            wait_for(lambda number=number: self.answers(number), 15, f"ssh to node{number}")

    def answers(self, number: int) -> bool:
        command = ["ssh", "-F", str(self.ssh_config), "-o", "ConnectTimeout=2", f"node{number}", "true"]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

    def pid(self, number: int) -> int:
        """The host's first process, as this machine counts."""
        outer = self._first[number].pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])

    def spaces(self) -> list[str]:
        """The pid namespace of each host; empty text for one that is down."""
        up = [self.pid(number) if number in self._first else None for number in self.numbers]
        return [str(Path(f"/proc/{pid}/ns/pid").readlink()) if pid else "" for pid in up]

    def console(self, number: int, *command: str) -> str:
        """A program on a host, without ssh and without its link."""
        return call("nsenter", "-t", str(self.pid(number)), "-n", "-m", "-u", "-i", "-p", "--", *command, check=False)

    def cut(self, number: int) -> None:
        """Pull the cable: no packet passes, nobody is told."""
        call("ip", "link", "set", f"{self.tag}v{number}", "down")

    def kill(self, number: int) -> None:
        """Power loss: cable out, then every process at once."""
        self.cut(number)
        os.kill(self.pid(number), signal.SIGKILL)
        self._first.pop(number).wait(10)

    def down(self) -> None:
        """End everything on the hosts and take them away."""
        for number in list(self._first):
            self.kill(number)
        for number in self.numbers:
            call("ip", "netns", "del", f"{self.tag}n{number}", check=False)
            call("ip", "link", "del", f"{self.tag}v{number}", check=False)
        call("ip", "link", "del", f"{self.tag}b", check=False)


def wait_for(condition, timeout_s: float, what: str):
    """What `condition` returns once it is true."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(what)
