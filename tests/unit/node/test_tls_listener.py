"""A TLS listener, on both loops."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.node.certificate_files import Authority, CertificateFile
from tests.support.background import background_tasks
from tests.unit.node.shell import DEADLINE_S, LOOPS, ScriptedCore, Shell, run_on
from warren.broker.model.effects import CloseConnection, Effect, SendBytes
from warren.broker.model.events import BytesReceived, ConnectionDropped, ConnectionOpened, Event
from warren.node import listeners
from warren.node.client_sockets import ClientSockets
from warren.node.listeners import Acceptor, ListenAddress, bind
from warren.node.logs import Log, LogLevels
from warren.node.tls import CertificateUserName, TlsSettings, server_context

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def open_listener(core: ScriptedCore, authority: Authority, patience_s: float = 10.0) -> AsyncIterator[Shell]:
    shell = Shell(core)
    sockets = bind(ListenAddress("127.0.0.1", 0), "")
    shell.port = sockets[0].getsockname()[1]
    settings = TlsSettings(authority.server.certificate, authority.server.key, authority.path, verify_peer=True)
    links = ClientSockets(shell.turns, count(1), CertificateUserName())
    door = Acceptor(
        links.accept, server_context(settings), patience_s, Log(LogLevels({"default": "info"}), stream=shell.log)
    )
    door.open(sockets, background_tasks())
    try:
        yield shell
    finally:
        door.close()
        await shell.hang_up()


async def secured(
    shell: Shell, authority: Authority, client: CertificateFile | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=authority.path)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return await asyncio.open_connection("127.0.0.1", shell.port, ssl=context, server_hostname="localhost")


async def until_logged(shell: Shell, event: str) -> str:
    async with asyncio.timeout(DEADLINE_S):
        while event not in shell.log.getvalue():
            await asyncio.sleep(0.01)
    return shell.log.getvalue()


def test_a_secured_connection_opens_with_its_name_and_talks(loop_name: str, authority: Authority) -> None:
    def answer(event: Event) -> list[Effect]:
        return [SendBytes(1, event.data.upper()), CloseConnection(1)] if isinstance(event, BytesReceived) else []

    async def conversation() -> None:
        core = ScriptedCore(answer)
        async with open_listener(core, authority) as shell:
            reader, writer = await secured(shell, authority, authority.client("alice", "Example"))
            writer.write(b"hello")
            assert await reader.read(-1) == b"HELLO"
            writer.close()
            await core.until(lambda: core.of(ConnectionDropped))
            [opened] = core.of(ConnectionOpened)
            assert (opened.tls, opened.certificate_name) == (True, "CN=alice,O=Example")
            assert (opened.peer_host, opened.local_port) == ("127.0.0.1", shell.port)
            accepted = [type(event) for event in core.events]
            assert accepted == [ConnectionOpened, BytesReceived, ConnectionDropped]

    run_on(loop_name, conversation())


def test_a_connection_without_a_certificate_has_no_name(loop_name: str, authority: Authority) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with open_listener(core, authority) as shell:
            _, writer = await secured(shell, authority)
            await core.until(lambda: core.of(ConnectionOpened))
            [opened] = core.of(ConnectionOpened)
            assert (opened.tls, opened.certificate_name) == (True, "")
            writer.close()

    run_on(loop_name, conversation())


@pytest.mark.parametrize("first_bytes", [b"AMQP\x00\x00\x09\x01", b"", b"\x16\x03\x01\x02\x00\x01"])
def test_a_handshake_that_fails_or_stalls_is_one_line(loop_name: str, authority: Authority, first_bytes: bytes) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with open_listener(core, authority, patience_s=0.2) as shell:
            client = socket.create_connection(("127.0.0.1", shell.port))
            client.sendall(first_bytes)
            [line] = (await until_logged(shell, "tls_handshake.failed")).splitlines()
            assert f"peer=127.0.0.1:{client.getsockname()[1]} reason=" in line
            assert core.turns == []
            client.close()

    run_on(loop_name, conversation())


def test_handshakes_are_a_limited_number_and_others_wait_until_one_ends(
    loop_name: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "HANDSHAKES_MAX", 8)

    async def conversation() -> None:
        core = ScriptedCore()
        async with open_listener(core, authority, patience_s=600.0) as shell:
            crowd = [socket.create_connection(("127.0.0.1", shell.port)) for _ in range(8)]
            for stalled in crowd:
                stalled.sendall(b"\x16\x03\x01\x02\x00\x01")
            client = asyncio.create_task(secured(shell, authority))
            done, _ = await asyncio.wait([client], timeout=0.5)
            assert not done
            crowd.pop().close()
            _, writer = await client
            await core.until(lambda: core.of(ConnectionOpened))
            writer.close()
            for stalled in crowd:
                stalled.close()

    run_on(loop_name, conversation())
