"""A connection as a row.

Not here: its channels (`views.channels`).
"""

from typing import Any

from warren.admin.history_port import HistoryPort, Spans
from warren.admin.views.amqp_values import plain
from warren.admin.views.erlang import GARBAGE_COLLECTION, NO_RATE
from warren.admin.views.tls_words import suite_words
from warren.broker.broker import Broker
from warren.broker.watching.sums import is_client
from warren.session.connection import RUNNING, Connection
from warren.session.firehose import name_of

_OF_CERTIFICATES = (
    "peer_cert_issuer",
    "peer_cert_subject",
    "peer_cert_validity",
    "ssl_cipher",
    "ssl_hash",
    "ssl_key_exchange",
    "ssl_protocol",
)


def connection_name(connection: Connection) -> str:
    """`127.0.0.1:52486 -> 127.0.0.1:5672`, the name under which operators know it."""
    return name_of(connection)


def listed_connections(broker: Broker) -> list[Connection]:
    """Those of clients, from the moment they are let in."""
    return [connection for connection in broker.connections.values() if is_client(connection)]


def connection_details(connection: Connection) -> dict[str, Any]:
    """How other rows name a connection."""
    opened = connection.opened
    return {"name": connection_name(connection), "peer_host": opened.peer_host, "peer_port": opened.peer_port}


class ConnectionRows:
    """Builds rows of one node's connections."""

    def __init__(self, node: str, history: HistoryPort, spans: Spans) -> None:
        self._node = node
        self._history = history
        self._spans = spans

    def row(self, connection: Connection) -> dict[str, Any]:
        opened = connection.opened
        exchange, cipher, hashed = suite_words(opened.tls_suite) if opened.tls else (None, None, None)
        row = self.short(connection)
        row |= {
            "auth_mechanism": connection.mechanism,
            "channel_max": int(connection.channel_max),
            "channels": len(connection.channels),
            "client_properties": plain(connection.client_properties),
            "connected_at": int(connection.connected_at_ms),
            "frame_max": int(connection.frame_max),
            "garbage_collection": GARBAGE_COLLECTION,
            "host": opened.local_host,
            "peer_cert_issuer": None,
            "peer_cert_subject": opened.certificate_name or None,
            "peer_cert_validity": None,
            "peer_host": opened.peer_host,
            "peer_port": opened.peer_port,
            "port": opened.local_port,
            "protocol": "Direct 0-9-1" if opened.direct else "AMQP 0-9-1",
            "recv_cnt": int(connection.received_reads),
            "reductions": 0,
            "reductions_details": NO_RATE,
            "send_cnt": int(connection.sends),
            "send_pend": int(connection.unread_bytes),
            "ssl": opened.tls,
            "ssl_cipher": cipher,
            "ssl_hash": hashed,
            "ssl_key_exchange": exchange,
            "ssl_protocol": opened.tls_protocol.lower() or None,
            "state": state_of(connection),
            "timeout": int(connection.patience.heartbeat_ms) // 1000,
            "type": "direct" if opened.direct else "network",
            "user_who_performed_action": connection.user,
        }
        name = connection.client_properties.get("connection_name")
        if isinstance(name, str):
            row["user_provided_name"] = name
        octets = {"recv_oct": int(connection.received_bytes), "send_oct": int(connection.sent_bytes)}
        return row | self._history.rated("connection", connection.connection_id, octets, self._spans.bytes)

    def detailed(self, connection: Connection) -> dict[str, Any]:
        """One connection alone; RabbitMQ has empty texts there where its lists have null."""
        row = self.row(connection)
        return row | {name: "" for name in _OF_CERTIFICATES if row[name] is None}

    def short(self, connection: Connection) -> dict[str, Any]:
        """What is known of a connection without statistics."""
        return {
            "name": connection_name(connection),
            "node": self._node,
            "user": connection.user,
            "vhost": connection.vhost.name if connection.vhost is not None else "",
        }


def state_of(connection: Connection) -> str:
    if connection.state != RUNNING:
        return "closing"
    if connection.blocked:
        return "blocked"
    if connection.node.alarm:
        # it is blocked as soon as it publishes
        return "blocking"
    return "running"
