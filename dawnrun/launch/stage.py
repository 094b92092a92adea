"""One node's part in staging data: a chain in which node 0 alone reads the shared disk and each node feeds the next.

Node 0 lists the files and sends the list down the chain; each node answers with what it or any node behind it lacks, and
then takes what it lacks from the stream and passes on what the next ones lack. Nodes find each other by files in a folder
that they share, and know each other by a secret in it.
"""

import hashlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dawnrun.dataset.copies import Entry, LocalCopy, as_lists, list_files, pieces
from dawnrun.errors import LaunchError
from dawnrun.launch.network import interfaces, is_loopback

READERS = 8
"""Files that node 0 reads at a time: a shared disk answers slowly, and many small files hide that."""
MEET_S = 120.0
SILENCE_S = 600.0
"""So long a neighbour may be silent: it may be listing a million files."""
CONNECT_S = 5.0
TELL_S = 1.0
HEADER = struct.Struct("!BQQ")
PIECE, END, DONE = 1, 2, 3
Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageOrder:
    """What is to be staged. `sources`: data set -> its folder on the shared disk; `places`: its folder on each node.

    `folder`: shared by all nodes, new; `check`: read all of it once more afterwards.
    """

    folder: str
    nodes: int
    token: str
    sources: Mapping[str, str]
    places: Mapping[str, str]
    interface: str | None = None
    check: bool = False


class Neighbour:
    """One connection of the chain: lines of JSON and frames."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        """`name` for people."""
        connection.settimeout(SILENCE_S)
        self._file, self._socket, self.name = connection.makefile("rb"), connection, name

    def close(self) -> None:
        """Leave the chain."""
        self._file.close()
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        """All of them. ConnectionError if the neighbour is gone."""
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            raise ConnectionError(f"{self.name} is gone: {error.strerror or error}") from error

    def read(self, length: int) -> bytes:
        """Exactly so many bytes. ConnectionError if the neighbour is gone."""
        try:
            data = self._file.read(length)
        except OSError as error:
            raise ConnectionError(f"{self.name} is gone: {error.strerror or error}") from error
        if len(data) != length:
            raise ConnectionError(f"{self.name} is gone")
        return data

    def send_json(self, value: object) -> None:
        """A length and a text."""
        data = json.dumps(value).encode()
        self.send(HEADER.pack(0, 0, len(data)), data)

    def read_json(self) -> Any:
        """What `send_json` sent."""
        return json.loads(self.read(HEADER.unpack(self.read(HEADER.size))[2]))

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """(kind, number of the file, bytes) up to the end of the stream."""
        while True:
            kind, number, length = HEADER.unpack(self.read(HEADER.size))
            if kind == DONE:
                return
            yield kind, number, self.read(length)

    def frame(self, kind: int, number: int, data: bytes = b"") -> None:
        """Send one."""
        self.send(HEADER.pack(kind, number, len(data)), data)


def stage(order: StageOrder, rank: int, tell: Tell) -> dict[str, Any]:
    """Take this node's part; what was copied. Raises DataError, LaunchError, OSError."""
    began = time.monotonic()
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("", 0)))
        server.settimeout(MEET_S)
        _publish(order, rank, server.getsockname()[1])
        before = stack.enter_context(closing(_connect(order, rank - 1))) if rank else None
        sets = (
            before.read_json()
            if before
            else {name: as_lists(list_files(Path(folder))) for name, folder in order.sources.items()}
        )
        after = stack.enter_context(closing(_accept(server, order))) if rank + 1 < order.nodes else None
        if after:
            after.send_json(sets)
        files = _Files(order, {name: [Entry(*item) for item in items] for name, items in sets.items()})
        stack.callback(files.close)
        behind = bytearray(after.read(len(files))) if after else bytearray(len(files))
        wanted = bytes(own | other for own, other in zip(files.lacking, behind, strict=True))
        if before:
            before.send(wanted)
        counter = _Counter(tell, files.num_bytes(files.lacking))
        for kind, number, data in before.frames() if before else files.read(wanted):
            if after and behind[number]:
                after.frame(kind, number, data)
            if files.lacking[number]:
                files.take(kind, number, data)
                counter.add(len(data) if kind == PIECE else 0)
        if after:
            after.frame(DONE, 0)
        files.finish(check=order.check)
    return {
        "host": socket.gethostname(),
        "num_files": len(files),
        "num_copied": sum(files.lacking),
        "num_bytes": files.num_bytes(bytes([1]) * len(files)),
        "copied_bytes": files.num_bytes(files.lacking),
        "seconds": time.monotonic() - began,
        "checked": order.check,
    }


class _Files:
    """The files of all data sets, numbered through; `lacking`: 1 for each that this node has not."""

    def __init__(self, order: StageOrder, sets: Mapping[str, list[Entry]]) -> None:
        self._sources = [Path(order.sources[name]) for name in sets]
        self._copies = [LocalCopy(Path(order.places[name]), entries) for name, entries in sets.items()]
        self._home = [(copy, number) for copy in self._copies for number in range(len(copy.entries))]
        self.lacking = bytearray()
        for copy in self._copies:
            missing = bytearray(len(copy.entries))
            for number in copy.missing:
                missing[number] = 1
            self.lacking += missing
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._home)

    def num_bytes(self, which: Sequence[int]) -> int:
        """Bytes of the files that are marked."""
        marked = zip(self._home, which, strict=True)
        return sum(copy.entries[number].num_bytes for (copy, number), mark in marked if mark)

    def read(self, wanted: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The frames of the files that are marked, from the shared disk."""
        first = 0
        for copy, source in zip(self._copies, self._sources, strict=True):
            mine = [number for number in range(len(copy.entries)) if wanted[first + number]]
            last, digest = -1, hashlib.sha256()
            for number, piece in pieces(source, copy.entries, mine, READERS):
                if number != last and last >= 0:
                    yield END, first + last, digest.digest()
                    digest = hashlib.sha256()
                last = number
                digest.update(piece)
                yield PIECE, first + number, piece
            if last >= 0:
                yield END, first + last, digest.digest()
            first += len(copy.entries)

    def take(self, kind: int, number: int, data: bytes) -> None:
        """Write a piece; at the end of a file its checksum must be the reader's."""
        copy, index = self._home[number]
        if kind == PIECE:
            self._digest.update(data)
            copy.take(index, data)
            return
        if self._digest.digest() != data:
            raise LaunchError(f"{copy.entries[index].path} arrived with another checksum than it was sent with")
        copy.end(index, data.hex())
        self._digest = hashlib.sha256()

    def close(self) -> None:
        """Let go of what is unfinished; the next time it goes on from there."""
        for copy in self._copies:
            copy.close()

    def finish(self, *, check: bool) -> None:
        """Give every set its name."""
        for copy in self._copies:
            copy.finish()
            if check:
                copy.check()


class _Counter:
    """Tells once a second how far this node is."""

    def __init__(self, tell: Tell, total: int) -> None:
        self._tell, self._total, self._done, self._last = tell, total, 0, 0.0

    def add(self, number: int) -> None:
        self._done += number
        if time.monotonic() - self._last > TELL_S:
            self._last = time.monotonic()
            self._tell({"staging": [self._done, self._total]})


def _publish(order: StageOrder, rank: int, port: int) -> None:
    found = interfaces()
    if order.interface is not None:
        found = {order.interface: found.get(order.interface, ())}
    every = [address for addresses in found.values() for address in addresses]
    # The loopback's alone: all nodes are on one machine without a network.
    own = [address for address in every if not is_loopback(address)] or every
    path = Path(order.folder) / f"chain-{rank}.json"
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps({"host": socket.gethostname(), "addresses": own, "port": port}), encoding="utf-8")
    aside.replace(path)


def _connect(order: StageOrder, rank: int) -> Neighbour:
    """To the node before, by whichever of its addresses it answers to with the same secret."""
    path, deadline = Path(order.folder) / f"chain-{rank}.json", time.monotonic() + MEET_S
    while time.monotonic() < deadline:
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(0.1)
            continue
        for address in there["addresses"]:
            try:
                connection = socket.create_connection((address, there["port"]), CONNECT_S)
            except OSError:
                continue
            neighbour = Neighbour(connection, str(there["host"]))
            neighbour.send(order.token.encode())
            return neighbour
        raise LaunchError(f"none of the addresses of {there['host']} can be reached: {', '.join(there['addresses'])}")
    raise LaunchError(f"node {rank} did not come within {MEET_S:g} s")


def _accept(server: socket.socket, order: StageOrder) -> Neighbour:
    """The node behind; whoever does not know the secret is sent away."""
    while True:
        try:
            connection, address = server.accept()
        except TimeoutError as error:
            raise LaunchError(f"the next node did not come within {MEET_S:g} s") from error
        neighbour = Neighbour(connection, str(address[0]))
        try:
            if neighbour.read(len(order.token)) == order.token.encode():
                return neighbour
        except ConnectionError:
            pass
        neighbour.close()
