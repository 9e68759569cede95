"""How the links of this node stand, in rows as RabbitMQ shows them.

Not here: who asks (`admin`).
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final

from warren.bridges.carrying.terms import ON_CONFIRM
from warren.bridges.federation.exchange_link import ExchangeLink
from warren.bridges.federation.links import Missing
from warren.bridges.federation.names import link_id
from warren.bridges.federation.queue_link import QueueLink
from warren.bridges.keeper import RUNNING, TERMINATED, Keeper

Row = dict[str, object]

STATUS: Final = {TERMINATED: "error"}
"""Of each state that RabbitMQ calls otherwise."""


def rows(node: str, keepers: Mapping[str, Keeper], missing: Iterable[Missing]) -> list[Row]:
    """One for each link, and one for each upstream that keeps a link from being."""
    links = [(keeper.bridge, keeper) for keeper in keepers.values()]
    found = [_link_row(node, link, keeper) for link, keeper in links if isinstance(link, ExchangeLink | QueueLink)]
    return found + [_missing_row(node, one) for one in missing]


def key_of(vhost: str, wanted_id: str, keepers: Mapping[str, Keeper]) -> str | None:
    """Which link of that virtual host has that id, if one of this node has."""
    for key, keeper in keepers.items():
        link = keeper.bridge
        if isinstance(link, ExchangeLink | QueueLink) and link.vhost == vhost and link_id(key) == wanted_id:
            return key
    return None


def _link_row(node: str, link: ExchangeLink | QueueLink, keeper: Keeper) -> Row:
    row: Row = {"node": node}
    if isinstance(link, ExchangeLink):
        row |= {"exchange": link.name, "upstream_exchange": link.upstream.exchange, "type": "exchange"}
    else:
        row |= {
            "queue": link.name,
            "upstream_queue": link.upstream.queue,
            "consumer_tag": link.upstream.consumer_tag,
            "type": "queue",
        }
    row |= {"vhost": link.vhost, "upstream": link.upstream.name, "id": link_id(link.key)}
    row["status"] = STATUS.get(keeper.state, keeper.state)
    if keeper.state == RUNNING:
        row["local_connection"] = keeper.facts.get("local_connection", "")
    elif keeper.reason:
        row["error"] = keeper.reason
    row["uri"] = keeper.facts.get("uri", link.upstream.shown_uri)
    row["timestamp"] = _moment(keeper.since)
    tally = keeper.tally
    row["forwarded"] = tally.confirmed if link.upstream.ack_mode == ON_CONFIRM else tally.published
    row["uncertain"] = tally.uncertain
    return row


def _missing_row(node: str, missing: Missing) -> Row:
    return {
        "node": node,
        missing.kind: missing.name,
        f"upstream_{missing.kind}": missing.name,
        "type": missing.kind,
        "vhost": missing.vhost,
        "upstream": missing.upstream,
        "id": link_id(missing.key),
        "status": "error",
        "error": missing.sentence,
        "uri": "",
        "timestamp": _moment(missing.since),
    }


def _moment(seconds: float) -> str:
    """In the node's own time, with the hour as RabbitMQ writes it."""
    at = time.localtime(seconds)
    return f"{at.tm_year}-{at.tm_mon:02}-{at.tm_mday:02} {at.tm_hour}:{at.tm_min:02}:{at.tm_sec:02}"
