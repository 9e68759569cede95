"""A listener behind load balancers, on both loops."""

import asyncio
import io
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.node.certificate_files import Authority
from tests.support.background import background_tasks
from tests.unit.node.shell import DEADLINE_S, LOOPS, ScriptedCore, Shell, run_on
from tests.unit.node.test_header import FOUR, LOCAL, PROXY, TCP4, UNSPECIFIED, addresses, binary
from warren.broker.model.effects import CloseConnection, Effect, SendBytes
from warren.broker.model.events import BytesReceived, ConnectionOpened, Event
from warren.node.client_sockets import ClientSocket, ClientSockets
from warren.node.listeners import Acceptor, ListenAddress, bind
from warren.node.logs import Log, LogLevels
from warren.node.proxy_protocol import LoadBalancers
from warren.node.tls import CertificateUserName, TlsSettings, server_context

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)

ALL_CLIENTS = LoadBalancers()
NOBODY_HERE = LoadBalancers((ipaddress.ip_network("10.0.0.11"),))


def shouting(event: Event) -> list[Effect]:
    """A core that answers in capitals, and hangs up."""
    if isinstance(event, BytesReceived):
        return [SendBytes(event.connection_id, event.data.upper()), CloseConnection(event.connection_id)]
    return []


@asynccontextmanager
async def open_listener(
    core: ScriptedCore, balancers: LoadBalancers, context: ssl.SSLContext | None = None, patience_s: float = 10.0
) -> AsyncIterator[Shell]:
    shell = Shell(core)
    sockets = bind(ListenAddress("127.0.0.1", 0), "")
    shell.port = sockets[0].getsockname()[1]
    links = ClientSockets(shell.turns, count(1), None if context is None else CertificateUserName())
    log = Log(LogLevels({"default": "info"}), stream=shell.log)
    door = Acceptor(links.accept, context, patience_s, log, balancers)
    door.open(sockets, background_tasks())
    try:
        yield shell
    finally:
        door.close()
        await shell.hang_up()


async def logged(log: io.StringIO) -> str:
    async with asyncio.timeout(DEADLINE_S):
        while not log.getvalue():
            await asyncio.sleep(0.01)
    return log.getvalue()


@pytest.mark.parametrize(
    "header",
    [b"PROXY TCP4 192.0.2.7 198.51.100.1 50112 5672\r\n", binary(PROXY, TCP4, FOUR + b"\x04\x00\x03abc")],
    ids=["version 1", "version 2"],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_client_behind_a_balancer_is_known_by_its_own_address(loop_name: str, header: bytes, at_once: bool) -> None:
    async def conversation() -> None:
        core = ScriptedCore(shouting)
        async with open_listener(core, ALL_CLIENTS) as shell:
            reader, writer = await shell.connect()
            pieces = [header + b"hello"] if at_once else [header[:7], header[7:20], header[20:], b"hello"]
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            assert await reader.read(-1) == b"HELLO"
            [opened] = core.of(ConnectionOpened)
            assert (opened.peer_host, opened.peer_port) == ("192.0.2.7", 50112)
            assert (opened.local_host, opened.local_port) == ("198.51.100.1", 5672)
            assert not shell.log.getvalue()

    run_on(loop_name, conversation())


@pytest.mark.parametrize("header", [binary(LOCAL, UNSPECIFIED, b""), b"PROXY UNKNOWN\r\n"])
def test_a_balancer_that_speaks_for_itself_is_known_by_its_address(loop_name: str, header: bytes) -> None:
    async def conversation() -> None:
        core = ScriptedCore(shouting)
        async with open_listener(core, ALL_CLIENTS) as shell:
            reader, writer = await shell.connect()
            writer.write(header + b"hello")
            assert await reader.read(-1) == b"HELLO"
            [opened] = core.of(ConnectionOpened)
            assert (opened.peer_host, opened.local_port) == ("127.0.0.1", shell.port)

    run_on(loop_name, conversation())


def test_a_client_that_is_no_balancer_speaks_without_a_header(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore(shouting)
        async with open_listener(core, NOBODY_HERE) as shell:
            reader, writer = await shell.connect()
            writer.write(b"proxy tcp4 is what i say")
            assert await reader.read(-1) == b"PROXY TCP4 IS WHAT I SAY"
            [opened] = core.of(ConnectionOpened)
            assert opened.peer_host == "127.0.0.1"

    run_on(loop_name, conversation())


def test_a_connection_with_a_header_has_nodelay(loop_name: str) -> None:
    """TCP_NODELAY, which the loops set on sockets that they accept themselves."""

    async def conversation() -> None:
        core = ScriptedCore()
        async with open_listener(core, ALL_CLIENTS) as shell:
            _reader, writer = await shell.connect()
            writer.write(binary(PROXY, TCP4, FOUR))
            await core.until(lambda: core.of(ConnectionOpened))
            [link] = shell.turns.links.values()
            assert isinstance(link, ClientSocket)
            accepted = link.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run_on(loop_name, conversation())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"AMQP\0\0\x09\x01" + bytes(8), "no PROXY header"),
        (b"PROXY TCP4 192.0.2.7\r\n", "two addresses and two ports"),
        (b"PROXY UNKNOWN " + b"x" * 200, "does not end within 107 bytes"),
        (binary(PROXY, TCP4, bytes(5000)), "more than 4096"),
    ],
)
def test_a_client_without_a_valid_header_is_disconnected_with_one_line(
    loop_name: str, sent: bytes, reason: str
) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with open_listener(core, ALL_CLIENTS) as shell:
            reader, writer = await shell.connect()
            writer.write(sent)
            # a reset, or an end, depending on the bytes that were read
            with suppress(ConnectionError):
                assert await reader.read(-1) == b""
            lines = (await logged(shell.log)).splitlines()
            assert len(lines) == 1
            assert "event=proxy_header.refused" in lines[0]
            assert "peer=127.0.0.1:" in lines[0]
            assert reason in lines[0]
            assert not core.of(ConnectionOpened)

    run_on(loop_name, conversation())


def test_a_client_that_stays_silent_or_stops_halfway_is_disconnected(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with open_listener(core, ALL_CLIENTS, patience_s=0.1) as shell:
            for begun in (b"", b"PROXY TCP4 192"):
                shell.log.truncate(0)
                reader, writer = await shell.connect()
                writer.write(begun)
                # a reset, if patience ended before anything was read of it
                with suppress(ConnectionError):
                    assert await reader.read(-1) == b""
                assert "it did not come within 0.1 s" in await logged(shell.log)

    run_on(loop_name, conversation())


def test_a_probe_of_the_port_is_not_logged(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore(shouting)
        async with open_listener(core, ALL_CLIENTS) as shell:
            _reader, looked = await shell.connect()
            looked.close()
            _reader, broke_off = await shell.connect()
            broke_off.write(b"PROXY ")
            broke_off.close()
            [line] = (await logged(shell.log)).splitlines()
            assert "it ended before its end" in line

    run_on(loop_name, conversation())


def test_a_header_goes_ahead_of_a_tls_handshake(loop_name: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = server_context(TlsSettings(authority.server.certificate, authority.server.key))

    async def conversation() -> None:
        core = ScriptedCore(shouting)
        async with open_listener(core, ALL_CLIENTS, context) as shell:
            client = socket.create_connection(("127.0.0.1", shell.port))
            client.sendall(b"PROXY TCP4 192.0.2.7 198.51.100.1 50112 5671\r\n")
            trusting = ssl.create_default_context(cafile=authority.path)
            reader, writer = await asyncio.open_connection(sock=client, ssl=trusting, server_hostname="localhost")
            writer.write(b"hello")
            assert await reader.read(-1) == b"HELLO"
            writer.close()
            [opened] = core.of(ConnectionOpened)
            assert (opened.peer_host, opened.tls) == ("192.0.2.7", True)

    run_on(loop_name, conversation())


def test_a_failed_handshake_is_logged_with_the_address_of_the_client(loop_name: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = server_context(TlsSettings(authority.server.certificate, authority.server.key))

    async def conversation() -> None:
        async with open_listener(ScriptedCore(), ALL_CLIENTS, context) as shell:
            _reader, writer = await shell.connect()
            writer.write(binary(PROXY, TCP4, addresses("192.0.2.7", "198.51.100.1")) + b"AMQP\0\0\x09\x01")
            line = await logged(shell.log)
            assert "event=tls_handshake.failed" in line
            assert "peer=192.0.2.7:50112" in line

    run_on(loop_name, conversation())
