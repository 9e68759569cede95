"""The headers that federation adds, and the hops they count. Pure.

A link adds headers that say where a message came from, and removes a user-id that this broker has not checked. All
other properties and headers keep their bytes.

`x-received-from` is a message's list of tables, the last broker first; `x-bound-from` is that of a binding. A broker is
identified by `cluster-name` and `vhost`. A client's value that is no such list is replaced.

A binding counts down: it may travel upstream as far as a message could travel back, so the smallest `max-hops` on its
way decides.
"""

from typing import Final

from warren.bridges.transfer_options import Rewrite, RewrittenMessage, transfer_properties
from warren.client.machine.deliveries import Delivery
from warren.wire.field_tables import Long, Table
from warren.wire.properties import edit_headers, find_header
from warren.wire.property_scan import FIXED_BYTES, HEADERS, USER_ID, PropertyScan

RECEIVED_FROM: Final = "x-received-from"
BOUND_FROM: Final = "x-bound-from"

Hops = list[object]


def hops_of(table: Table, header: str) -> Hops | None:
    """The list in that header, if there is one."""
    found = table.get(header)
    return found if isinstance(found, list) else None


def may_be_forwarded(received_from: Hops | None, max_hops: int, cluster_name: str, vhost: str) -> bool:
    """Whether a message that came through these brokers may go to that one."""
    if received_from is None:
        return True
    return len(received_from) < max_hops and not has_visited(cluster_name, vhost, received_from)


def has_visited(cluster_name: str, vhost: str, hops: Hops) -> bool:
    return any(
        isinstance(hop, dict) and hop.get("cluster-name") == cluster_name and hop.get("vhost") == vhost for hop in hops
    )


def upstream_binding_arguments(
    arguments: Table, max_hops: int, upstream_name: str, upstream_vhost: str, here: Table
) -> Table | None:
    """The arguments of the binding upstream; None if it goes no further. `here` identifies this broker."""
    before = hops_of(arguments, BOUND_FROM)
    hops_left = max_hops
    if before is not None:
        if has_visited(upstream_name, upstream_vhost, before):
            return None
        hops_left = min(_hops_left(before) - 1, max_hops)
    if hops_left < 1:
        return None
    return {**arguments, BOUND_FROM: [{**here, "hops": hops_left}, *(before or [])]}


def _hops_left(before: Hops) -> int:
    last = before[0] if before else None
    hops = last.get("hops") if isinstance(last, dict) else None
    return hops if isinstance(hops, int) else 1


ORIGINAL_EXCHANGE: Final = "x-original-exchange"
ORIGINAL_ROUTING_KEY: Final = "x-original-routing-key"
ORIGINAL_CC: Final = "x-original-cc"
CC: Final = "CC"
VISIT_COUNT: Final = "visit-count"
_ORIGIN_HEADERS: Final = (RECEIVED_FROM.encode(), CC.encode())


def rewrite_for_exchange(
    exchange: str, cluster_name: str, vhost: str, hop: Table, max_hops: int, trust_user_id: bool
) -> Rewrite:
    """The rewrite for an exchange of this broker; `hop` describes the upstream."""

    scan = PropertyScan()

    def rewrite(delivery: Delivery) -> RewrittenMessage | None:
        before = hops_of(_origin_headers(delivery, scan), RECEIVED_FROM)
        if not may_be_forwarded(before, max_hops, cluster_name, vhost):
            return None
        last = {**hop, "redelivered": delivery.redelivered}
        added: Table = {RECEIVED_FROM: [last, *(before or [])]}
        properties = _edited(delivery, scan, [RECEIVED_FROM], added, trust_user_id)
        return RewrittenMessage(exchange, delivery.routing_key, properties, delivery.body)

    return rewrite


def rewrite_for_queue(queue: str, hop: Table, trust_user_id: bool) -> Rewrite:
    """The rewrite for a queue of this broker. A message may come back to a queue; the visits are counted."""

    scan = PropertyScan()

    def rewrite(delivery: Delivery) -> RewrittenMessage | None:
        headers = _origin_headers(delivery, scan)
        before = hops_of(headers, RECEIVED_FROM)
        visits, others = _visits(before or [], hop)
        last = {**hop, "redelivered": delivery.redelivered, VISIT_COUNT: Long(visits + 1)}
        added: Table = {RECEIVED_FROM: [last, *others]}
        if before is None:
            added[ORIGINAL_EXCHANGE] = delivery.exchange
            added[ORIGINAL_ROUTING_KEY] = delivery.routing_key
        if CC in headers:
            # the message must not be routed by it again
            added[ORIGINAL_CC] = headers[CC]
        properties = _edited(delivery, scan, [CC, *added], added, trust_user_id)
        return RewrittenMessage("", queue, properties, delivery.body)

    return rewrite


def _visits(before: Hops, hop: Table) -> tuple[int, Hops]:
    """How often the message came from there, and its list without that entry."""
    same = [
        one
        for one in before
        if isinstance(one, dict) and all(one.get(name) == hop.get(name) for name in ("uri", "queue"))
    ]
    counts = [one.get(VISIT_COUNT) for one in same]
    others = [one for one in before if not any(one is each for each in same)]
    return max([count for count in counts if isinstance(count, int)], default=0), others


def _origin_headers(delivery: Delivery, scan: PropertyScan) -> Table:
    """The headers, if one of those matters here. Most messages have none and are not decoded."""
    payload = delivery.header_payload
    scan.scan(payload, 0, len(payload))
    for name in _ORIGIN_HEADERS if scan.flags & HEADERS else ():
        if find_header(payload, scan.headers_start, scan.headers_end, name) >= 0:
            return delivery.headers
    return {}


def _edited(delivery: Delivery, scan: PropertyScan, remove: list[str], add: Table, trust_user_id: bool) -> bytes:
    if not trust_user_id and scan.flags & USER_ID:
        return _without_user_id(delivery, remove, add)
    return edit_headers(delivery.header_payload, remove, add)[FIXED_BYTES - 2 :]


def _without_user_id(delivery: Delivery, remove: list[str], add: Table) -> bytes:
    properties = delivery.properties
    properties.user_id = None
    kept = {name: value for name, value in (properties.headers or {}).items() if name not in remove}
    properties.headers = {**kept, **add}
    return transfer_properties(properties)
