"""Where in its queue a message stands, for a consumer that wants to be told.

A consumer with the argument `x-warren-position: true` gets with each delivery a header of that name. It is the same
whenever the message is delivered, and no other message of the queue has it: so a consumer that was interrupted between
doing something and its ack knows the message again.

An entry that another node has lent says where it stands at home in the place of its deadline, which its home looks
after: marked so that no deadline can be mistaken for it.

Not here: how the place comes over a link (`remote.late_acks`, `remote.hosting`).
"""

from typing import Final

from mypy_extensions import i64

from warren.model.message import Entry, Message
from warren.wire.header_edits import edit_headers
from warren.wire.values import Table

POSITION: Final = "x-warren-position"
AT_HOME: Final[i64] = 1 << 62


def wants_position(arguments: Table) -> bool:
    return arguments.get(POSITION) is True


def with_position(entry: Entry) -> Message:
    """The message with a header that says where it stands."""
    message = entry.message
    at: i64 = entry.expires_at_ms
    position: i64 = at ^ AT_HOME if at >= AT_HOME else entry.position
    return message.with_header_payload(edit_headers(message.header_payload(), [POSITION], {POSITION: int(position)}))
