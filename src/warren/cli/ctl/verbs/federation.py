"""Links of federation: how they stand, and beginning one anew.

Not here: upstreams, which are parameters (`verbs.parameters`).
"""

from typing import Any, Final

from warren.cli.ctl.failure import failed
from warren.cli.ctl.terms import Atom
from warren.cli.ctl.verb import Call, Rows, Verb

COLUMNS: Final = [
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


def federation_status(call: Call) -> Rows:
    place = ("federation-links", "state", "down") if call.own("only-down") else ("federation-links",)
    links = [link for link in call.api.get(*place) if link["node"] == call.node]
    return Rows(COLUMNS, [_row(link) for link in links])


def _row(link: dict[str, Any]) -> dict[str, object]:
    """What a link does not have is an empty text, as with RabbitMQ."""
    words = {name: link.get(name, "") for name in COLUMNS}
    return {
        **words,
        "type": Atom(link["type"]),
        "status": Atom(link["status"]),
        "last_changed": link.get("timestamp", ""),
    }


def restart_federation_link(call: Call) -> None:
    wanted = call.arguments[0]
    for link in call.api.get("federation-links"):
        if link["id"] == wanted and call.api.remove(
            "federation-links", "vhost", link["vhost"], wanted, link["node"], "restart"
        ):
            return
    raise failed("Link with the given ID was not found")


def _banner(call: Call) -> str:
    which = "federation links which are down" if call.own("only-down") else "federation links"
    return f"Listing {which} on node {call.node}..."


VERBS: Final = [
    Verb(
        "federation_status",
        "Lists the links of federation of a node: what each takes from where, and what is wrong with it",
        federation_status,
        "[--only-down] [--no-table-headers] [--timeout <timeout>]",
        "federation_status --only-down",
        _banner,
        switches={"only-down": bool},
    ),
    Verb(
        "restart_federation_link",
        "Ends a link of federation and begins it anew",
        restart_federation_link,
        "<link_id>",
        "restart_federation_link 8b6229b1",
        "Restarting federation link {0} on node {node}",
        (1, 1),
    ),
]
