"""Connections and channels: list, and close connections.

A connection is given by the identifier that `list_connections pid` prints, or by its name.

Not here: what the client is sent (`broker.sessions`).
"""

import time
from typing import Any, Final

from warren.cli.ctl.api import failed
from warren.cli.ctl.terms import Atom, TermTable, pid
from warren.cli.ctl.verb import ColumnSource, Text, Verb, VerbCall, list_verb, same

CONNECTION_COLUMNS: Final[dict[str, ColumnSource]] = {
    **same(
        "auth_mechanism channel_max channels connected_at frame_max host name peer_cert_issuer peer_cert_subject"
        " peer_cert_validity peer_host peer_port port recv_cnt recv_oct send_cnt send_oct send_pend ssl ssl_cipher"
        " ssl_hash ssl_key_exchange ssl_protocol timeout user vhost"
    ),
    "client_properties": ColumnSource(
        ("client_properties",), lambda connection: TermTable(connection.get("client_properties") or {})
    ),
    "pid": ColumnSource(("node", "name"), lambda connection: process(connection)),
    "protocol": ColumnSource(("protocol",), lambda connection: _version(str(connection.get("protocol", "")))),
    "state": ColumnSource(("state",), lambda connection: Atom(connection.get("state") or "")),
}
CHANNEL_COLUMNS: Final[dict[str, ColumnSource]] = {
    **same(
        "acks_uncommitted confirm consumer_count global_prefetch_count messages_unacknowledged messages_uncommitted"
        " messages_unconfirmed name number prefetch_count transactional user vhost"
    ),
    "connection": ColumnSource(
        ("node", "connection_details"),
        lambda channel: pid(channel.get("node"), (channel.get("connection_details") or {}).get("name")),
    ),
    "pid": ColumnSource(("node", "name"), lambda channel: pid(channel.get("node"), channel.get("name"))),
}


def process(connection: dict[str, Any]) -> Atom | None:
    return pid(connection.get("node"), connection.get("name"))


def _version(protocol: str) -> object:
    numbers = protocol.rpartition(" ")[2].split("-")
    return tuple(int(number) for number in numbers) if all(map(str.isdigit, numbers)) else protocol


def close_connection(call: VerbCall) -> None:
    wanted, explanation = call.arguments
    for connection in call.api.pages("connections", columns=["name", "node"]):
        if wanted in (connection["name"], process(connection)):
            _close(call, [connection], explanation)
            return
    if not (wanted.startswith("<") and wanted.endswith(">")):
        raise failed(f'{{:invalid_pid_syntax, "{wanted}"}}')


def close_all_connections(call: VerbCall) -> Text:
    place = ("connections",) if call.own("global") else ("vhosts", call.vhost, "connections")
    connections = list(call.api.pages(*place, columns=["name", "node"]))
    if call.own("global"):
        connections = [connection for connection in connections if connection.get("node", call.node) == call.node]
    limit = call.own("limit", 0)
    chosen = connections[:limit] if limit > 0 else connections
    _close(call, chosen, call.arguments[0])
    return Text(f"Closed {len(chosen)} connections")


def close_all_user_connections(call: VerbCall) -> None:
    user, explanation = call.arguments
    connections = [
        connection
        for connection in call.api.pages("connections", columns=["name", "node", "user"])
        if connection.get("user") == user
    ]
    _close(call, connections, explanation)


def _close(call: VerbCall, connections: list[dict[str, Any]], explanation: str) -> None:
    # a header is one line
    reason = "".join(letter if letter.isprintable() else " " for letter in explanation).encode()
    for number, connection in enumerate(connections):
        if number:
            time.sleep(call.own("per-connection-delay", 0) / 1000)
        if call.api.find("connections", connection["name"], columns="name") is not None:
            call.api.delete("connections", connection["name"], headers={"X-Reason": reason})


def _all_banner(call: VerbCall) -> str:
    place = f"to node {call.node} (across all vhosts)" if call.own("global") else f"in vhost {call.vhost}"
    return f"Closing {call.own('limit', 0) or 'all'} connections {place}, reason: {call.arguments[0]}..."


LISTS: Final = [
    list_verb(
        "list_connections",
        "Lists the connections of clients",
        "connections",
        "user peer_host peer_port state",
        CONNECTION_COLUMNS,
        "name user state channels",
        "Listing connections ...",
    ),
    list_verb(
        "list_channels",
        "Lists the channels of clients",
        "channels",
        "pid user consumer_count messages_unacknowledged",
        CHANNEL_COLUMNS,
        "name prefetch_count messages_unacknowledged",
        "Listing channels ...",
        timeout="",
    ),
]
VERBS: Final = [
    Verb(
        "close_connection",
        "Closes a connection, by the pid that list_connections prints or by its name",
        close_connection,
        "<connection pid> <explanation>",
        "close_connection '127.0.0.1:50328 -> 127.0.0.1:5672' 'moving house'",
        "Closing connection {0}, reason: {1}...",
        (2, 2),
    ),
    Verb(
        "close_all_connections",
        "Closes the connections of a virtual host, or all of a node",
        close_all_connections,
        "[--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>",
        "close_all_connections --vhost / --limit 10 'moving house'",
        _all_banner,
        (1, 1),
        {"global": bool, "limit": int, "per-connection-delay": int},
    ),
    Verb(
        "close_all_user_connections",
        "Closes the connections of a user",
        close_all_user_connections,
        "<username> <explanation>",
        "close_all_user_connections ops 'password changed'",
        "Closing connections of user {0}, reason: {1}...",
        (2, 2),
    ),
]
