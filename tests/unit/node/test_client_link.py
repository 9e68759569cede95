"""One client's socket as events and orders."""

import asyncio
import contextlib
import socket
import struct

import pytest

from tests.unit.node.shell import DEADLINE_S, LOOPS, ScriptedCore, listening, run_on
from warren.broker.model.effects import CloseConnection, Effect, PauseReading, ResumeReading, SendBytes
from warren.broker.model.events import BytesReceived, ConnectionDropped, ConnectionOpened, Event
from warren.node import client_sockets, turn_loop

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)


def received(core: ScriptedCore) -> bytes:
    return b"".join(event.data for event in core.of(BytesReceived))


def test_a_connection_opens_receives_and_is_lost(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with listening(core) as shell:
            _, writer = await shell.connect()
            local = writer.get_extra_info("sockname")
            writer.write(b"hello")
            writer.close()
            await core.until(lambda: core.of(ConnectionDropped))
            opened = core.of(ConnectionOpened)[0]
            assert (opened.peer_host, opened.peer_port) == local
            assert (opened.local_host, opened.local_port) == ("127.0.0.1", shell.port)
            assert (opened.tls, opened.certificate_name) == (False, "")
            assert [type(event) for event in core.events] == [ConnectionOpened, BytesReceived, ConnectionDropped]
            assert [event.connection_id for event in core.of(Event)] == [1, 1, 1]
            assert (shell.turns.links, shell.turns.lingering) == ({}, set())

    run_on(loop_name, conversation())


def test_connections_are_numbered_in_the_order_they_come(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with listening(core) as shell:
            for _ in range(3):
                await shell.connect()
            await core.until(lambda: len(core.of(ConnectionOpened)) == 3)
            assert [event.connection_id for event in core.of(ConnectionOpened)] == [1, 2, 3]

    run_on(loop_name, conversation())


def test_a_reset_is_a_loss_with_its_reason(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with listening(core) as shell:
            client = socket.create_connection(("127.0.0.1", shell.port))
            await core.until(lambda: core.of(ConnectionOpened))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            await core.until(lambda: core.of(ConnectionDropped))
            assert "reset" in core.of(ConnectionDropped)[0].reason.lower()

    run_on(loop_name, conversation())


def test_small_writes_are_not_delayed_by_the_kernel(loop_name: str) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        async with listening(core) as shell:
            await shell.connect()
            await core.until(lambda: core.of(ConnectionOpened))
            accepted = shell.turns.links[1].transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

    run_on(loop_name, conversation())


def test_a_paused_socket_is_not_read_until_it_is_resumed(loop_name: str) -> None:
    def pause(event: Event) -> list[Effect]:
        return [PauseReading(1), PauseReading(1)] if isinstance(event, ConnectionOpened) else []

    async def conversation() -> None:
        core = ScriptedCore(pause)
        async with listening(core) as shell:
            _, writer = await shell.connect()
            await core.until(lambda: core.of(ConnectionOpened))
            writer.write(b"waiting")
            # input of a second connection, opened later, shows that the loop could have read the first
            _, witness = await shell.connect()
            witness.write(b"seen")
            await core.until(lambda: received(core) == b"seen")
            shell.order(ResumeReading(1), ResumeReading(1))
            await core.until(lambda: received(core) == b"seenwaiting")

    run_on(loop_name, conversation())


def test_the_last_words_reach_a_client_that_is_still_sending(loop_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close with unread input would send a reset that overtakes them."""
    # no client is disconnected meanwhile, also on a busy machine
    monkeypatch.setattr(client_sockets, "CLOSE_PATIENCE_S", DEADLINE_S)
    farewell = b"the reason" * 1000

    def refuse(event: Event) -> list[Effect]:
        return [PauseReading(1), SendBytes(1, farewell), CloseConnection(1)] if isinstance(event, BytesReceived) else []

    async def conversation() -> None:
        core = ScriptedCore(refuse)
        async with listening(core) as shell:
            reader, writer = await shell.connect()
            for _ in range(64):
                writer.write(bytes(65536))
                await asyncio.sleep(0)
            await writer.drain()
            assert await reader.read(-1) == farewell
            assert core.of(ConnectionDropped) == []
            writer.close()
            await core.until(lambda: core.of(ConnectionDropped))
            assert len(core.of(BytesReceived)) == 1
            assert shell.turns.lingering == set()

    run_on(loop_name, conversation())


@pytest.mark.parametrize("last_words", [[], [SendBytes(1, b"are you there?")]], ids=["silent", "spoken to"])
def test_a_client_that_vanished_unseen_can_still_be_closed(loop_name: str, last_words: list[Effect]) -> None:
    """Its socket is paused, so the reset is not read yet; the order to close comes first."""

    def pause(event: Event) -> list[Effect]:
        return [PauseReading(1)] if isinstance(event, ConnectionOpened) else []

    async def conversation() -> None:
        core = ScriptedCore(pause)
        async with listening(core) as shell:
            client = socket.create_connection(("127.0.0.1", shell.port))
            await core.until(lambda: core.of(ConnectionOpened))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            shell.order(*last_words, ResumeReading(1), CloseConnection(1))
            await core.until(lambda: core.of(ConnectionDropped))
            assert shell.stops == []
            assert shell.turns.lingering == set()

    run_on(loop_name, conversation())


@pytest.mark.parametrize("pending", [b"", bytes(16 * 1024 * 1024)], ids=["silent", "unread"])
def test_a_client_that_neither_reads_nor_closes_is_cut_off(
    loop_name: str, pending: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_sockets, "CLOSE_PATIENCE_S", 0.1)

    def close(event: Event) -> list[Effect]:
        return [SendBytes(1, pending), CloseConnection(1)] if isinstance(event, ConnectionOpened) else []

    async def conversation() -> None:
        core = ScriptedCore(close)
        async with listening(core) as shell:
            client = socket.create_connection(("127.0.0.1", shell.port))
            await core.until(lambda: core.of(ConnectionDropped))
            assert core.of(BytesReceived) == []
            client.close()

    run_on(loop_name, conversation())


READ_AT_ONCE_BYTES = 256 * 1024


def test_a_turn_has_a_bounded_part_of_the_input_that_waits(loop_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bound_bytes = 64 * 1024
    monkeypatch.setattr(turn_loop, "READ_BYTES_A_TURN", bound_bytes)

    def pause(event: Event) -> list[Effect]:
        return [PauseReading(1)] if isinstance(event, ConnectionOpened) else []

    async def conversation() -> None:
        core = ScriptedCore(pause)
        async with listening(core) as shell:
            with socket.create_connection(("127.0.0.1", shell.port)) as client:
                await core.until(lambda: core.of(ConnectionOpened))
                sent_bytes = fill(client)
                assert sent_bytes > bound_bytes + 2 * READ_AT_ONCE_BYTES
                shell.order(ResumeReading(1))
                await core.until(lambda: len(received(core)) == sent_bytes)
                read = [sum(len(one.data) for one in turn if isinstance(one, BytesReceived)) for turn in core.turns]
                assert max(read) < bound_bytes + READ_AT_ONCE_BYTES + 1

    run_on(loop_name, conversation())


def fill(client: socket.socket) -> int:
    """Send until the kernel's buffers are full; how many bytes they took."""
    client.setblocking(False)
    sent_bytes = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent_bytes += client.send(bytes(READ_AT_ONCE_BYTES))
    return sent_bytes
