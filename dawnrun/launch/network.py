"""Addresses and interfaces of this machine, from the kernel alone: no name is looked up and no program is run."""

import fcntl
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SIOCGIFADDR = 0x8915
CONNECT_S = 10.0


def interfaces(if_inet6: Path = Path("/proc/net/if_inet6")) -> Mapping[str, tuple[str, ...]]:
    """Interface -> its addresses, IPv4 first; link-local IPv6 addresses are left out."""
    found: dict[str, tuple[str, ...]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            found[name] = ()
            with suppress(OSError):
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[name] = (socket.inet_ntoa(answer[20:24]),)
    with suppress(OSError):
        for line in if_inet6.read_text().splitlines():
            digits, *_, scope, _, name = line.split()
            if scope != "20":
                address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
                found[name] = (*found.get(name, ()), address)
    return found


def is_loopback(address: str) -> bool:
    """Whether an address reaches this machine only."""
    return address.startswith("127.") or address == "::1"


def resolve(host: str) -> str:
    """An address as it is given, or the first that a name resolves to. Raises OSError."""
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def own_address(peer: str) -> str:
    """The address this machine has on its route to `peer`; nothing is sent. Raises OSError where there is no route."""
    family = socket.AF_INET6 if ":" in peer else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))
        return str(probe.getsockname()[0])


def interface_of(address: str, among: Mapping[str, tuple[str, ...]]) -> str | None:
    """The interface that holds an address."""
    return next((name for name, addresses in among.items() if address in addresses), None)


def reach(address: str, port: int, timeout_s: float = CONNECT_S) -> None:
    """Connect to a port and leave again. Raises OSError."""
    with socket.create_connection((address, port), timeout_s):
        pass


class HeldPort:
    """A free TCP port that no other program gets until this one gives it up.

    The kernel hands a bound port to nobody, but lets a server with SO_REUSEADDR (torch's store sets it) listen on it
    where the holder has set it too and does not listen itself.
    """

    def __init__(self, *, listen: bool = False) -> None:
        """Take a port; with `listen` it accepts connections until `hold`, to see whether others reach it."""
        self._socket = socket.create_server(("", 0), backlog=1024) if listen else socket.socket()
        if not listen:
            self._socket.bind(("", 0))
        self.number = int(self._socket.getsockname()[1])
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def hold(self) -> None:
        """Stop listening and keep the port. Raises OSError if another program was quicker."""
        self._socket.close()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", self.number))

    def close(self) -> None:
        """Give it up."""
        self._socket.close()
