"""Shovels: how they stand; restarting and deleting them.

They are set as parameters of the component `shovel` (`verbs.parameters`).

Not here: links of federation.
"""

from typing import Any, Final

from warren.cli.ctl.failure import failed
from warren.cli.ctl.verb import Call, Rows, Verb

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
"""Column by column, which field of the API it has."""


def shovel_status(call: Call) -> Rows:
    """As in RabbitMQ, of all virtual hosts; columns that none of the shovels has are left out."""
    found: list[dict[str, Any]] = call.api.get("shovels")
    columns = [column for column in sorted(FIELDS) if column in ALWAYS or any(FIELDS[column] in row for row in found)]
    return Rows(columns, [{column: row.get(FIELDS[column], "") for column in columns} for row in found], streamed=True)


def restart_shovel(call: Call) -> None:
    _order(call, "restart")


def delete_shovel(call: Call) -> None:
    _order(call)


def _order(call: Call, *order: str) -> None:
    if not call.api.remove("shovels", "vhost", call.vhost, call.arguments[0], *order):
        where = f"on the target node '{call.node}' and / or virtual host '{call.vhost}'"
        raise failed(f"Shovel with the given name was not found {where}")


VERBS: Final = [
    Verb(
        "shovel_status",
        "Lists the shovels: what each carries where, and why one that broke did so",
        shovel_status,
        "[--no-table-headers] [--timeout <timeout>]",
        "shovel_status",
        "Shovel status on node {node}",
    ),
    Verb(
        "restart_shovel",
        "Has a shovel begin anew with connecting",
        restart_shovel,
        "[--vhost <vhost>] <name>",
        "restart_shovel orders",
        "Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}",
        (1, 1),
    ),
    Verb(
        "delete_shovel",
        "Ends a shovel, and clears its definition",
        delete_shovel,
        "[--vhost <vhost>] <name>",
        "delete_shovel orders",
        "Deleting shovel {0} in vhost {vhost}",
        (1, 1),
    ),
]
