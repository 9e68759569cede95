"""Opens many AMQP connections at once from one process, and leaves them idle.

Each is a small machine of three steps: the peer's Start is answered with Start-Ok, its Tune with Tune-Ok and Open,
its Open-Ok ends it. No heartbeats are asked for.

Not here: the cost of the connections (`footprint`).
"""

import selectors
import socket
import struct

from wire import PROTOCOL_HEADER, START_OK, TUNE_OK_AND_OPEN, Refused

UNDER_WAY = 64
SILENCE_LIMIT_S = 30
REPLIES = {(10, 10): START_OK, (10, 30): TUNE_OK_AND_OPEN}
OPEN_OK = (10, 41)


def open_idle(address: tuple[str, int], number: int) -> list[socket.socket]:
    """Open `number` connections; the caller closes them."""
    opened: list[socket.socket] = []
    started = 0
    with selectors.DefaultSelector() as selector:
        while len(opened) < number:
            while started < number and started - len(opened) < UNDER_WAY:
                selector.register(_started(address), selectors.EVENT_READ, bytearray())
                started += 1
            ready = selector.select(SILENCE_LIMIT_S)
            if not ready:
                raise Refused(f"no handshake went on for {SILENCE_LIMIT_S} s; {len(opened)} connections were open")
            for key, _ in ready:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if _stepped_to_open(connection, key.data):
                    selector.unregister(connection)
                    opened.append(connection)
    return opened


def _started(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(PROTOCOL_HEADER)
    return connection


def _stepped_to_open(connection: socket.socket, unread: bytearray) -> bool:
    chunk = connection.recv(4096)
    if not chunk:
        raise Refused("the broker closed a connection during its handshake")
    unread += chunk
    while len(unread) >= 7:
        size = int.from_bytes(unread[3:7], "big")
        if len(unread) < size + 8:
            break
        method = struct.unpack_from(">HH", unread, 7)
        del unread[: size + 8]
        if method == OPEN_OK:
            return True
        if method not in REPLIES:
            raise Refused(f"unexpected method {method} during a handshake")
        connection.sendall(REPLIES[method])
    return False
