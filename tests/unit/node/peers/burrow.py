"""Nodes that are nothing but their links, on real sockets, and a wire between them that can be cut.

Not here: the hello in memory (`tests/unit/cluster`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.node.certificate_files import CertificateFile
from tests.unit.node.shell import DEADLINE_S, ScriptedCore, Shell
from warren.admin.background import BackgroundTasks
from warren.broker.cluster.hello import PeerIdentity
from warren.broker.model.events import PeerConnected, PeerLost, PeerReceived
from warren.node.config.cluster_settings import ClusterSettings
from warren.node.listeners import ListenAddress
from warren.node.logs import Log, LogLevels
from warren.node.peers.connections import PeerConnections
from warren.node.tls import TlsSettings

COOKIE = b"a cookie of enough letters"
SILENCE_S = 1


class Peer:
    """One node: its core is a script, its links are real."""

    def __init__(
        self,
        name: str,
        members: dict[str, str],
        cookie: bytes = COOKIE,
        incarnation: int = 1,
        cluster_id: str = "burrow",
        port: int = 0,
        silence_s: int = SILENCE_S,
        tls: TlsSettings | None = None,
        core: ScriptedCore | None = None,
    ) -> None:
        self.name = name
        self.core = core or ScriptedCore()
        self.shell = Shell(self.core)
        self.members = members
        self.asked: list[tuple[str, bytes]] = []
        settings = ClusterSettings(peer_listener=ListenAddress("127.0.0.1", port), silence_s=silence_s)
        if tls is not None:
            settings.tls = tls
        facts = PeerIdentity(name, incarnation, cluster_id, "", silence_ms=silence_s * 1000)
        log = Log(LogLevels({"default": "debug"}), stream=self.shell.log)
        self.links = PeerConnections(
            settings, facts, cookie, log, lambda: self.members, self._answer, BackgroundTasks(log)
        )
        self.shell.turns.attach(self.links.orders())

    @property
    def address(self) -> str:
        return self.links.own.address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def log(self) -> str:
        return self.shell.log.getvalue()

    def start(self) -> None:
        self.links.start(self.shell.turns)

    async def _answer(self, facts: PeerIdentity, request: bytes) -> bytes:
        self.asked.append((facts.name, request))
        return b"answer to " + request

    def connections(self) -> list[tuple[str, int]]:
        return [(event.node, event.incarnation) for event in self.core.of(PeerConnected)]

    def losses(self) -> list[PeerLost]:
        return self.core.of(PeerLost)

    def received(self, node: str) -> bytes:
        return b"".join(event.data for event in self.core.of(PeerReceived) if event.node == node)

    async def connected_to(self, other: "Peer", times: int = 1) -> None:
        await self.core.until(lambda: [node for node, _ in self.connections()].count(other.name) >= times)

    async def logged(self, words: str) -> str:
        """The first line that holds these words, as soon as there is one."""
        await until(lambda: words in self.log)
        return next(line for line in self.log.splitlines() if words in line)


@asynccontextmanager
async def burrow(*peers: Peer) -> AsyncIterator[None]:
    """Peers that know each other, started; closed in the end."""
    for peer in peers:
        peer.members |= {other.name: other.address for other in peers if other.name not in peer.members}
    for peer in peers:
        peer.start()
    try:
        yield
    finally:
        for peer in peers:
            await peer.links.close()


async def until(condition: Callable[[], object]) -> None:
    """For conditions without an event."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def rounds_counted(length_s: float) -> AsyncIterator[list[int]]:
    """How often the loop has waited so long: a busy machine that does not let it run makes one round longer, not more
    of them."""
    rounds = [0]

    async def count() -> None:
        while True:
            await asyncio.sleep(length_s)
            rounds[0] += 1

    counting = asyncio.get_running_loop().create_task(count())
    try:
        yield rounds
    finally:
        counting.cancel()


class Wire:
    """A proxy in front of a port. It can stop forwarding, in silence, and go on."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> str:
        """Its address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return "127.0.0.1:" + str(self._server.sockets[0].getsockname()[1])

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, back]
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._pump(reader, back)), loop.create_task(self._pump(there, writer))]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        await self._flows.wait()
        writer.close()


def tls_of(file: CertificateFile, authority: str | Path) -> TlsSettings:
    return TlsSettings(file.certificate, file.key, str(authority))
