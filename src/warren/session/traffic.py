"""What passes through connections, counted: octets, reads and writes, logins, channels that come and go.

A link within the process is nobody's client, and does not count.

Not here: messages (`session.tallies`), the figures (`model.figures`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.session.connection import Connection


def received(connection: "Connection", size_bytes: i64) -> None:
    """One read of the client's socket."""
    connection.patience.received_at_ms = connection.turn.now_ms
    connection.received_reads += 1
    connection.received_bytes += size_bytes
    if not connection.opened.internal:
        connection.turn.figures.received_bytes += size_bytes
        if connection.vhost is not None:
            connection.vhost.figures.received_bytes += size_bytes


def sent(connection: "Connection", size_bytes: i64) -> None:
    """One write to the client's socket."""
    connection.patience.sent_at_ms = connection.turn.now_ms
    connection.sends += 1
    connection.sent_bytes += size_bytes
    if not connection.opened.internal:
        connection.turn.figures.sent_bytes += size_bytes
        if connection.vhost is not None:
            connection.vhost.figures.sent_bytes += size_bytes


def login_decided(connection: "Connection", refused: bool) -> None:
    if not connection.opened.internal:
        connection.turn.figures.logins += 1
        if refused:
            connection.turn.figures.logins_refused += 1


def connection_opened(connection: "Connection") -> None:
    if not connection.opened.internal:
        connection.turn.figures.connections_created += 1


def connection_lost(connection: "Connection") -> None:
    if not connection.opened.internal:
        connection.turn.figures.connections_closed += 1


def channel_opened(connection: "Connection") -> None:
    if not connection.opened.internal:
        connection.turn.figures.channels_created += 1


def channels_closed(connection: "Connection", count: i64) -> None:
    if not connection.opened.internal:
        connection.turn.figures.channels_closed += count
