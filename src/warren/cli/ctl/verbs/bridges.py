"""Shovels and federation links: status, restart, delete.

Not here: definitions of shovels and upstreams, which are parameters (`verbs.parameters`).
"""

from collections.abc import Callable
from typing import Any, Final

from warren.cli.ctl.api import failed
from warren.cli.ctl.terms import Atom
from warren.cli.ctl.verb import Rows, Verb, VerbCall, VerbResult

ALWAYS: Final = ("destination", "last_changed", "name", "source", "state", "termination_reason", "type", "vhost")
FIELDS: Final = {
    "name": "name",
    "vhost": "vhost",
    "type": "type",
    "state": "state",
    "last_changed": "timestamp",
    "termination_reason": "reason",
    "source": "src_uri",
    "source_protocol": "src_protocol",
    "source_queue": "src_queue",
    "source_exchange": "src_exchange",
    "source_exchange_key": "src_exchange_key",
    "destination": "dest_uri",
    "destination_protocol": "dest_protocol",
    "destination_queue": "dest_queue",
    "destination_exchange": "dest_exchange",
    "destination_exchange_key": "dest_exchange_key",
}
"""The API field of each column."""


def shovel_status(call: VerbCall) -> Rows:
    """All virtual hosts, as in RabbitMQ; columns that no shovel has are left out."""
    found: list[dict[str, Any]] = call.api.get("shovels")
    columns = [column for column in sorted(FIELDS) if column in ALWAYS or any(FIELDS[column] in row for row in found)]
    return Rows(columns, [{column: row.get(FIELDS[column], "") for column in columns} for row in found], streamed=True)


def _orders(*order: str) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> None:
        if not call.api.remove("shovels", "vhost", call.vhost, call.arguments[0], *order):
            where = f"on the target node '{call.node}' and / or virtual host '{call.vhost}'"
            raise failed(f"Shovel with the given name was not found {where}")

    return run


SHOVEL_VERBS: Final = [
    Verb(
        "shovel_status",
        "Lists shovels with their source, destination, state and error",
        shovel_status,
        "[--no-table-headers] [--timeout <timeout>]",
        "shovel_status",
        "Shovel status on node {node}",
    ),
    Verb(
        "restart_shovel",
        "Restarts a shovel",
        _orders("restart"),
        "[--vhost <vhost>] <name>",
        "restart_shovel orders",
        "Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}",
        (1, 1),
    ),
    Verb(
        "delete_shovel",
        "Deletes a shovel and its definition",
        _orders(),
        "[--vhost <vhost>] <name>",
        "delete_shovel orders",
        "Deleting shovel {0} in vhost {vhost}",
        (1, 1),
    ),
]


FEDERATION_COLUMNS: Final = [
    "id",
    "vhost",
    "type",
    "exchange",
    "upstream_exchange",
    "queue",
    "upstream_queue",
    "upstream",
    "status",
    "error",
    "uri",
    "local_connection",
    "last_changed",
]


def federation_status(call: VerbCall) -> Rows:
    place = ("federation-links", "state", "down") if call.own("only-down") else ("federation-links",)
    links = [link for link in call.api.get(*place) if link["node"] == call.node]
    return Rows(FEDERATION_COLUMNS, [_row(link) for link in links])


def _row(link: dict[str, Any]) -> dict[str, object]:
    """A missing field is an empty text, as in RabbitMQ."""
    words = {name: link.get(name, "") for name in FEDERATION_COLUMNS}
    return {
        **words,
        "type": Atom(link["type"]),
        "status": Atom(link["status"]),
        "last_changed": link.get("timestamp", ""),
    }


def restart_federation_link(call: VerbCall) -> None:
    wanted = call.arguments[0]
    for link in call.api.get("federation-links"):
        if link["id"] == wanted and call.api.remove(
            "federation-links", "vhost", link["vhost"], wanted, link["node"], "restart"
        ):
            return
    raise failed("Link with the given ID was not found")


def _banner(call: VerbCall) -> str:
    which = "federation links which are down" if call.own("only-down") else "federation links"
    return f"Listing {which} on node {call.node}..."


FEDERATION_VERBS: Final = [
    Verb(
        "federation_status",
        "Lists the federation links of a node with their upstream, state and error",
        federation_status,
        "[--only-down] [--no-table-headers] [--timeout <timeout>]",
        "federation_status --only-down",
        _banner,
        switches={"only-down": bool},
    ),
    Verb(
        "restart_federation_link",
        "Restarts a federation link",
        restart_federation_link,
        "<link_id>",
        "restart_federation_link 8b6229b1",
        "Restarting federation link {0} on node {node}",
        (1, 1),
    ),
]
