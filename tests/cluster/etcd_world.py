"""Real etcd members and stores for tests, and ways to disturb them.

A member's process does not belong to an event loop: a test adopts the processes of its fixture and disturbs them, and
the fixture restarts the members that are down after the test.

Not here: nodes of a cluster (`trio`).
"""

import asyncio
import io
import os
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.support.deadlines import DEADLINE_S, run, until
from tests.support.ports import free_port
from warren.admin.background import BackgroundTasks
from warren.broker.metadata.store import Snapshot
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdAddress, EtcdConnection
from warren.node.etcd.member import EtcdMember
from warren.node.etcd.messages import ProtobufMessage, encode_bytes, encode_message, encode_number, encode_text
from warren.node.etcd.program import EtcdMemberSettings
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watch import MetadataChanged, MetadataReplaced
from warren.node.logs import Log, LogLevels
from warren.node.parameter_cipher import ParameterCipher
from warren.node.tls import TlsFiles

READ_AND_WRITE = 2
CIPHER = ParameterCipher(b"a cookie for tests")

T = TypeVar("T")


def quiet_log() -> Log:
    return Log(LogLevels({}), stream=io.StringIO())


def member_of(directory: Path, name: str, log: Log | None = None, **settings: Any) -> EtcdMember:
    log = log or quiet_log()
    return EtcdMember(EtcdMemberSettings(str(directory), name, "test", **settings), log, BackgroundTasks(log))


@asynccontextmanager
async def connected(*endpoints: str, **address: Any) -> AsyncIterator[EtcdConnection]:
    connection = EtcdConnection(EtcdAddress(endpoints, **address))
    try:
        yield connection
    finally:
        await connection.close()


async def carry_out(connection: EtcdConnection, method: str, request: bytes) -> ProtobufMessage:
    """Make a call that must not be repeated: the member has just answered another one, and has a long deadline."""
    await connection.ask(messages.RANGE, messages.range_request(b"a"), DEADLINE_S)
    return await connection.call(method, request, DEADLINE_S)


@asynccontextmanager
async def store_at(
    *endpoints: str, cluster: str, node: str = "warren@test", revision: int = 0, moved: Snapshot | None = None
) -> AsyncIterator[EtcdStore]:
    """The store of a cluster, with the entries that were moved in at its start."""
    async with connected(*endpoints) as connection:
        store = EtcdStore(connection, cluster, node, CIPHER)
        if not await store.begun(DEADLINE_S):
            await store.move_in(revision, moved or {})
        yield store


class Watcher:
    """Collects the changes that a watch reports, from its creation on."""

    def __init__(self, store: EtcdStore, after: int) -> None:
        self.told: list[MetadataChanged | MetadataReplaced] = []
        self._task = asyncio.create_task(self._gather(store, after))

    def revisions(self) -> list[int]:
        return [item.revision for item in self.told]

    def keys(self) -> list[str]:
        return [change.key for item in self.told if isinstance(item, MetadataChanged) for change in item.changes]

    async def until_told(self, revision: int) -> None:
        await until(lambda: bool(self.told) and self.told[-1].revision >= revision)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _gather(self, store: EtcdStore, after: int) -> None:
        async with aclosing(store.watch(after)) as items:
            async for item in items:
                self.told.append(item)


async def demand_passwords(endpoint: str, files: TlsFiles) -> None:
    own_keys = encode_bytes(2, b"/warren/") + encode_bytes(3, messages.prefix_end(b"/warren/"))
    steps = [
        ("RoleAdd", encode_text(1, "root")),
        ("RoleAdd", encode_text(1, "broker")),
        (
            "RoleGrantPermission",
            encode_text(1, "broker") + encode_message(2, encode_number(1, READ_AND_WRITE) + own_keys),
        ),
        ("UserAdd", encode_text(1, "root") + encode_text(2, "top secret")),
        ("UserGrantRole", encode_text(1, "root") + encode_text(2, "root")),
        ("UserAdd", encode_text(1, "warren") + encode_text(2, "open sesame")),
        ("UserGrantRole", encode_text(1, "warren") + encode_text(2, "broker")),
        ("UserAdd", encode_text(1, "stranger") + encode_text(2, "friend")),
        ("AuthEnable", b""),
    ]
    async with connected(endpoint, tls=files) as connection:
        for name, request in steps:
            await carry_out(connection, f"/etcdserverpb.Auth/{name}", request)


def as_user(user: str, password: str, files: TlsFiles) -> dict[str, Any]:
    return {"tls": files, "user": user, "password": password}


class Members:
    """Members of one etcd, which outlive a scenario."""

    def __init__(self, directory: Path, count: int, tls: TlsFiles | None = None, **settings: Any) -> None:
        self._directory = directory
        self._tls = tls
        self._settings = settings
        self.count = count
        self._ports: dict[int, dict[str, int]] = defaultdict(_ports)
        self._clusters = 0

    def make(self) -> None:
        run(self._make())

    def mend(self) -> None:
        """All members run again."""
        run(self.revive(*range(self.count)))

    def destroy(self) -> None:
        run(self._destroy())

    def cluster(self) -> str:
        """A name that no other test has."""
        self._clusters += 1
        return f"cluster{self._clusters}"

    def directory(self, number: int) -> Path:
        return self._directory / str(number)

    def member(self, number: int, log: Log | None = None) -> EtcdMember:
        settings = {**self._settings, **self._ports[number]}
        return member_of(self.directory(number), f"warren@{number}", log, tls=self._tls, **settings)

    def endpoints(self) -> list[str]:
        return self.endpoints_of(*range(self.count))

    def endpoints_of(self, *numbers: int) -> list[str]:
        return [self.member(number).endpoint for number in numbers]

    def pid(self, number: int) -> int:
        found = self.member(number)._process.find()
        assert found
        return found

    def kill(self, number: int) -> None:
        """The process has ended when this returns, and does not write to its directory any more."""
        process = self.member(number)._process
        os.kill(self.pid(number), signal.SIGKILL)
        while process.find():
            time.sleep(0.01)

    def pause(self, number: int) -> None:
        os.kill(self.pid(number), signal.SIGSTOP)

    def go_on(self, number: int) -> None:
        os.kill(self.pid(number), signal.SIGCONT)

    async def leader(self) -> int:
        """The number of the leader; there is none during an election."""
        member = self.member(0)
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not (leader := (await member.status()).leader):
                    await asyncio.sleep(0.05)
            names = {found.id: found.name for found in await member.members()}
        finally:
            await member.close()
        return int(names[leader].removeprefix("warren@"))

    async def revive(self, *numbers: int) -> None:
        """Start dead members again, and continue suspended ones."""
        members = [self.member(number) for number in numbers]
        for member in members:
            pid = member._process.find()
            if pid:
                os.kill(pid, signal.SIGCONT)
            await member.resume()
        for member in members:
            await member.ready()
            await member.close()

    async def _make(self) -> None:
        for number in range(self.count):
            member = self.member(number)
            if number == 0:
                await member.found()
            else:
                await member.join(self.endpoints_of(0))
            await member.close()

    async def _destroy(self) -> None:
        for number in range(self.count):
            member = self.member(number)
            if member._process.find():
                os.kill(member.pid, signal.SIGKILL)
            await member.stop()


def _ports() -> dict[str, int]:
    return {"client_port": free_port(), "peer_port": free_port()}


class LossyProxy:
    """A proxy in front of a member that loses answers or holds requests back on the test's order."""

    def __init__(self, endpoint: str) -> None:
        self._host, _, port = endpoint.rpartition(":")
        self._port = int(port)
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.loses_answers = False
        self.keeps_requests = False
        self.kept: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.answered_bytes = 0
        self.endpoint = ""

    async def __aenter__(self) -> "LossyProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def deliver(self) -> None:
        """Forward the requests that were held back."""
        for writer, data in self.kept:
            writer.write(data)
            await writer.drain()
        self.kept.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._writers += [writer, far_writer]
        self._tasks.append(asyncio.create_task(self._pass_requests(reader, far_writer)))
        self._tasks.append(asyncio.create_task(self._pass_answers(far_reader, writer)))

    async def _pass_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.keeps_requests:
                    self.kept.append((writer, data))
                else:
                    writer.write(data)
                    await writer.drain()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                self.answered_bytes += len(data)
                if not self.loses_answers:
                    writer.write(data)
                    await writer.drain()
