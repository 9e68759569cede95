"""Refusals at the peer port: their reasons on both sides, and the limits for strangers."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.node.certificate_files import Authority, self_signed
from tests.unit.node.peers.burrow import COOKIE, Peer, burrow, tls_of, until
from tests.unit.node.shell import DEADLINE_S, LOOPS, run_on
from warren.broker.cluster.hello import HEADER, OPENING, AcceptHello, DialHello
from warren.errors import ConfigError
from warren.node.peers import connections, handshake
from warren.node.tls import TlsSettings, peer_tls_contexts

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)


async def refused_both(refuser: Peer, refused: Peer, sentence: str) -> None:
    """One side says that it refused, the other that it was refused, with the same sentence."""
    assert f'reason="{sentence}"' in await refuser.logged("event=peer.refused")
    assert f'reason="{sentence}"' in await refused.logged("event=refusal.received")
    assert refuser.connections() == refused.connections() == []


def test_a_wrong_cookie_is_refused_on_both_sides(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, cookie=COOKIE.upper())
        async with burrow(ant, bee):
            # each is dialled or knocked at by the other
            for dialler, accepter in ((ant, bee), (bee, ant)):
                sentence = f"{dialler.name} and {accepter.name} do not have the same cookie"
                await refused_both(accepter, dialler, sentence)
            assert COOKIE.decode() not in ant.log + bee.log

    run_on(loop_name, conversation())


def test_a_node_of_another_cluster_is_refused_on_both_sides(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, cluster_id="hive")
        async with burrow(ant, bee):
            await refused_both(ant, bee, "warren@bee is of the cluster hive, warren@ant of the cluster burrow")

    run_on(loop_name, conversation())


@pytest.mark.parametrize("name", ["warren@ant", "warren@cat"])
def test_a_name_that_is_taken_is_refused_on_both_sides(name: str, loop_name: str) -> None:
    """Wherever the impostor's name stands among the others: it dials, or it knocks."""

    async def conversation() -> None:
        bee, real = Peer("warren@bee", {}), Peer(name, {})
        async with burrow(bee, real):
            await bee.connected_to(real)
            await real.connected_to(bee)
            impostor = Peer(name, {"warren@bee": bee.address}, incarnation=9)
            async with burrow(impostor):
                sentence = f"another node called {name}, at {real.address} in its run 1, is connected to warren@bee"
                assert f'reason="{sentence}"' in await impostor.logged("event=refusal.received")
                assert f'reason="{sentence}"' in await bee.logged("event=peer.refused")
                assert bee.losses() == real.losses() == []

    run_on(loop_name, conversation())


def test_a_node_does_not_link_to_itself(loop_name: str) -> None:
    async def conversation() -> None:
        ant = Peer("warren@ant", {})
        async with burrow(ant):
            ant.members["warren@bee"] = ant.address
            ant.links.members_changed()
            line = await ant.logged("event=peer.refused")
            assert 'reason="both nodes are called warren@ant"' in line

    run_on(loop_name, conversation())


def test_the_same_failure_is_one_line(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, cookie=COOKIE.upper())
        async with burrow(ant, bee):
            # every attempt of one is a complaint of the other, and only those are counted
            await until(lambda: bee.log.count("event=peer.refused") >= 3)
            assert ant.log.count("event=refusal.received") == 1

    run_on(loop_name, conversation())


@asynccontextmanager
async def stranger(peer: Peer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def last_words(reader: asyncio.StreamReader) -> bytes:
    """The bytes that a stranger gets until the end of the connection, which is a reset if its input was not read."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            return await reader.read()
        except OSError:
            return b""


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: warren\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        HEADER + bytes((OPENING,)) + b"\xff\xff" + b"x" * 70_000,
        HEADER + bytes((OPENING, 0, 3)) + b"abc",
        HEADER * 3,
    ],
)
def test_garbage_is_hung_up_on(garbage: bytes, loop_name: str) -> None:
    async def conversation() -> None:
        ant = Peer("warren@ant", {})
        async with burrow(ant), stranger(ant) as (reader, writer):
            writer.write(garbage)
            assert len(await last_words(reader)) < 200
            await ant.logged("event=peer.refused")
            assert ant.core.events == []

    run_on(loop_name, conversation())


def test_a_silent_stranger_is_dropped(loop_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HELLO_PATIENCE_S", 0.2)

    async def conversation() -> None:
        ant = Peer("warren@ant", {})
        async with burrow(ant), stranger(ant) as (reader, writer):
            for octet in HEADER:
                writer.write(bytes((octet,)))
            assert await last_words(reader) == b""
            line = await ant.logged("event=peer.refused")
            assert 'reason="it took longer than 0.2 s for the hello"' in line

    run_on(loop_name, conversation())


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.2"], [f"127.0.1.{number}" for number in range(1, 97)]])
def test_strangers_who_linger_keep_no_member_out(
    addresses: list[str], loop_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "HELLO_PATIENCE_S", 600.0)

    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        count = 3 * handshake.STRANGERS_MAX
        sources = [addresses[number % len(addresses)] for number in range(count)]
        crowd = [socket.create_connection(("127.0.0.1", bee.port), source_address=(host, 0)) for host in sources]
        async with burrow(ant, bee):
            await bee.logged("are saying hello")
            await ant.connected_to(bee)
            await until(lambda: bee.log.count("event=peer.refused") == handshake.THROTTLED_LINES_MAX)
        suppressed = int((await bee.logged("event=notes.suppressed")).rpartition("lines=")[2])
        assert suppressed >= count - handshake.STRANGERS_MAX - handshake.THROTTLED_LINES_MAX
        for each in crowd:
            each.close()

    run_on(loop_name, conversation())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_nodes_speak_over_tls(authority: Authority, loop_name: str) -> None:
    async def conversation() -> None:
        tls = tls_of(authority.server, authority.path)
        ant, bee = Peer("warren@ant", {}, tls=tls), Peer("warren@bee", {}, tls=tls)
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            ant.links.links["warren@bee"].send((b"a secret",))
            await bee.core.until(lambda: bee.received("warren@ant") == b"a secret")
            bee.links.links["warren@ant"].end("goodbye", goodbye=True)
            await ant.core.until(ant.losses)
            assert ant.losses()[0].reason == "it said goodbye: goodbye"
            await ant.connected_to(bee, times=2)

    run_on(loop_name, conversation())


def test_both_ends_of_a_tls_connection_prove_themselves_for_that_connection(
    authority: Authority, loop_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[bytes] = []
    accepted: list[bytes] = []

    def dial_hello(*given: Any) -> DialHello:
        dialled.append(given[-1])
        return DialHello(*given)

    def accept_hello(*given: Any) -> AcceptHello:
        accepted.append(given[-1])
        return AcceptHello(*given)

    monkeypatch.setattr(connections, "DialHello", dial_hello)
    monkeypatch.setattr(connections, "AcceptHello", accept_hello)

    async def conversation() -> None:
        tls = tls_of(authority.server, authority.path)
        ant, bee = Peer("warren@ant", {}, tls=tls), Peer("warren@bee", {}, tls=tls)
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
        assert all(len(channel) >= 12 for channel in dialled + accepted)
        assert set(dialled) & set(accepted)
        assert len(set(dialled)) == len(dialled)

    run_on(loop_name, conversation())


def test_a_node_with_a_certificate_of_an_unknown_authority_is_refused(
    authority: Authority, loop_name: str, tmp_path: Path
) -> None:
    async def conversation() -> None:
        trusted = tls_of(authority.server, authority.path)
        own = tls_of(self_signed(tmp_path, "stranger"), authority.path)
        ant, bee = Peer("warren@ant", {}, tls=trusted), Peer("warren@bee", {}, tls=own)
        async with burrow(ant, bee):
            assert "certificate verify failed" in await ant.logged("event=peer.unreachable")
            assert "certificate verify failed" in await ant.logged("event=peer.refused")
            assert "perhaps it does not accept this node's certificate" in await bee.logged("event=peer.unreachable")
            assert ant.connections() == bee.connections() == []

    run_on(loop_name, conversation())


def test_a_node_without_tls_does_not_get_in_where_there_is(authority: Authority, loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, tls=tls_of(authority.server, authority.path))
        async with burrow(ant, bee):
            assert "TLS" in await bee.logged("event=peer.refused")
            await ant.logged("event=peer.unreachable")
            assert "it does not speak the protocol between nodes" in await ant.logged("event=peer.refused")
            assert ant.connections() == bee.connections() == []

    run_on(loop_name, conversation())


def test_a_client_without_a_certificate_is_refused(authority: Authority, loop_name: str) -> None:
    async def conversation() -> None:
        bee = Peer("warren@bee", {}, tls=tls_of(authority.server, authority.path))
        context = ssl.create_default_context(cafile=authority.path)
        async with burrow(bee):
            reader, writer = await asyncio.open_connection("localhost", bee.port, ssl=context)
            assert await last_words(reader) == b""
            writer.close()
            assert "peer did not return a certificate" in await bee.logged("event=peer.refused")

    run_on(loop_name, conversation())


def test_tls_between_nodes_needs_an_authority(authority: Authority, loop_name: str) -> None:
    with pytest.raises(ConfigError, match=r"TLS between nodes needs cluster\.tls\.cacertfile, too"):
        peer_tls_contexts(TlsSettings(authority.server.certificate, authority.server.key))
    with pytest.raises(ConfigError, match=r"TLS between nodes needs cluster\.tls\.certfile, too"):
        peer_tls_contexts(TlsSettings(cacertfile=authority.path))
