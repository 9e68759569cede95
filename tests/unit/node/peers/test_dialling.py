"""The descriptor of a dialled socket: one owner closes it, once.

A number that is closed twice may belong to another file the second time, to a journal for one.
"""

import asyncio
import os
import socket
import ssl
import struct

import pytest

from tests.unit.node.shell import DEADLINE_S, LOOPS, run_on
from warren.broker.cluster.hello import LINK, NONCE_BYTES, DialHello, Hello, PeerIdentity
from warren.node.peers.handshake import HandshakeBroken, PeerHandshake, attach_handshake, tls_options

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)


def connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        dialled.setblocking(False)
        return dialled, listener.accept()[0]


def reset(accepted: socket.socket) -> None:
    """Hang up so that the other side's first write fails."""
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted.close()


def dialling_greeting() -> PeerHandshake:
    def hello(channel: bytes) -> Hello:
        own = PeerIdentity("warren@ant", 1, "", "127.0.0.1:1", "disc", 1000)
        return DialHello(own, b"c" * 32, bytes(NONCE_BYTES), LINK, "warren@bee", channel)

    def taken(hello: Hello, transport: asyncio.Transport) -> None:
        raise AssertionError("nobody answers")

    return PeerHandshake(asyncio.get_running_loop(), hello, taken)


async def not_reused(number: int) -> None:
    """The loop has closed it: the number can be had again."""
    while True:
        try:
            os.fstat(number)
        except OSError:
            return
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("secured", [False, True])
def test_a_socket_whose_peer_hung_up_does_not_keep_a_number_that_the_loop_closed(loop_name: str, secured: bool) -> None:
    async def conversation() -> None:
        dialled, accepted = connected_pair()
        number = dialled.fileno()
        reset(accepted)
        context = ssl.create_default_context() if secured else None
        options = tls_options(context) | ({"server_hostname": "localhost"} if secured else {})
        greeting = dialling_greeting()
        try:
            await attach_handshake(asyncio.get_running_loop(), dialled, greeting, options)
            await greeting.finished
        except (OSError, HandshakeBroken):
            pass
        else:
            raise AssertionError("a node answered")
        finally:
            greeting.abort()
        async with asyncio.timeout(DEADLINE_S):
            await not_reused(number)
        assert dialled.fileno() == -1

    run_on(loop_name, conversation())


def test_a_socket_that_was_handed_over_is_closed_with_its_transport(loop_name: str) -> None:
    async def conversation() -> None:
        dialled, accepted = connected_pair()
        number = dialled.fileno()
        greeting = dialling_greeting()
        await attach_handshake(asyncio.get_running_loop(), dialled, greeting, {})
        assert os.fstat(number)
        greeting.abort()
        async with asyncio.timeout(DEADLINE_S):
            await not_reused(number)
        assert dialled.fileno() == -1
        accepted.close()

    run_on(loop_name, conversation())
