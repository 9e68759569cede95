"""What a client has said already behind the method at hand.

Where others must agree, a method waits, and all that follows waits behind it. Clients that do not await each answer
have often sent more of the same by then. Whoever plans for the method at hand may look at what follows and plan for
that, too; nothing is answered, or changed in the session, before its own frame is handled.

Only an unbroken row counts: methods of the same kind, on the same channel, whole, one directly after the other. What
comes between may mean anything.

Not here: what is planned (`session.declaring_queues`).
"""

from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.errors import ConnectionFault
from warren.wire.methods import QueueDeclare, decode_method

if TYPE_CHECKING:
    from warren.session.channel import Channel

ROW_MAX: Final = 50
"""No longer than what is agreed upon at once."""

QUEUE_DECLARE: Final = 50 << 16 | 10


def queue_declarations(channel: "Channel") -> list[QueueDeclare]:
    """Those directly behind the frame at hand, in their order."""
    reader = channel.connection.reader
    found: list[QueueDeclare] = []
    start: i64 = reader.position
    while len(found) < ROW_MAX:
        end: i64 = reader.method_end(start)
        if end - start < 12 or int(read_i32_be(reader.data, start + 7)) != QUEUE_DECLARE:
            break
        try:
            method = decode_method(reader.data, start + 7, end - 1)
        except ConnectionFault:
            break
        assert isinstance(method, QueueDeclare)
        found.append(method)
        start = end
    return found
