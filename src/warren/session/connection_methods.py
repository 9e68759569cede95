"""What a client may say on channel 0 once its connection runs, and while it closes.

Not here: the handshake (`session.handshake`).
"""

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.errors import CHANNEL_ERROR, ConnectionFault
from warren.session.connection import Connection
from warren.wire.frames import METHOD, FrameReader
from warren.wire.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)

CONNECTION_CLOSE: Final[i64] = 10 << 16 | 50
CONNECTION_CLOSE_OK: Final[i64] = 10 << 16 | 51


def handle(connection: Connection, method: Method) -> None:
    if isinstance(method, ConnectionClose):
        connection.note("info", "connection.closed", {"code": method.reply_code})
        connection.tell_confirms()
        connection.end_channels()
        connection.send(ConnectionCloseOk())
        # the client hangs up once it has read the answer; hanging up first could lose it
        connection.ignore_input()
    elif isinstance(method, ConnectionUpdateSecret):
        # a password does not expire, so there is nothing a newer one would prolong
        connection.send(ConnectionUpdateSecretOk())
    else:
        raise ConnectionFault(CHANNEL_ERROR, "unexpected method in connection state running")


def while_closing(connection: Connection, reader: FrameReader) -> None:
    """We sent connection.close: everything but its answer is ignored."""
    if reader.channel != 0 or reader.frame_type != METHOD or reader.end - reader.start < 4:
        return
    method_id: i64 = read_i64_be(reader.data, reader.start - 4) & 0xFFFFFFFF
    if method_id == CONNECTION_CLOSE:
        connection.send(ConnectionCloseOk())
    elif method_id == CONNECTION_CLOSE_OK:
        connection.hang_up()
