"""What a link makes of a message: headers that say where it came from, and no user-id that nobody here has checked.

All other properties and headers stay as they are, byte for byte.

Not here: how far messages may go (`federation.hops`).
"""

from typing import Final

from warren.bridges.carrying.terms import Outgoing, Rewrite, properties_of
from warren.bridges.federation.hops import RECEIVED_FROM, Hops, hops_of, may_be_forwarded
from warren.client.machine.deliveries import Delivery
from warren.wire.field_tables import Long
from warren.wire.properties import edit_headers, find_header
from warren.wire.property_scan import FIXED_BYTES, HEADERS, USER_ID, PropertyScan
from warren.wire.values import Table

ORIGINAL_EXCHANGE: Final = "x-original-exchange"
ORIGINAL_ROUTING_KEY: Final = "x-original-routing-key"
ORIGINAL_CC: Final = "x-original-cc"
CC: Final = "CC"
VISIT_COUNT: Final = "visit-count"
_TELLING: Final = (RECEIVED_FROM.encode(), CC.encode())


def to_exchange(
    exchange: str, cluster_name: str, vhost: str, hop: Table, max_hops: int, trust_user_id: bool
) -> Rewrite:
    """For an exchange of this broker; `hop` says which upstream it came from."""

    scan = PropertyScan()

    def rewrite(delivery: Delivery) -> Outgoing | None:
        before = hops_of(_telling_headers(delivery, scan), RECEIVED_FROM)
        if not may_be_forwarded(before, max_hops, cluster_name, vhost):
            return None
        last = {**hop, "redelivered": delivery.redelivered}
        added: Table = {RECEIVED_FROM: [last, *(before or [])]}
        properties = _edited(delivery, scan, [RECEIVED_FROM], added, trust_user_id)
        return Outgoing(exchange, delivery.routing_key, properties, delivery.body)

    return rewrite


def to_queue(queue: str, hop: Table, trust_user_id: bool) -> Rewrite:
    """For a queue of this broker. A message may come back to where it was; how often is counted."""

    scan = PropertyScan()

    def rewrite(delivery: Delivery) -> Outgoing | None:
        headers = _telling_headers(delivery, scan)
        before = hops_of(headers, RECEIVED_FROM)
        visits, others = _visits(before or [], hop)
        last = {**hop, "redelivered": delivery.redelivered, VISIT_COUNT: Long(visits + 1)}
        added: Table = {RECEIVED_FROM: [last, *others]}
        if before is None:
            added[ORIGINAL_EXCHANGE] = delivery.exchange
            added[ORIGINAL_ROUTING_KEY] = delivery.routing_key
        if CC in headers:
            # else it would be routed by it again
            added[ORIGINAL_CC] = headers[CC]
        properties = _edited(delivery, scan, [CC, *added], added, trust_user_id)
        return Outgoing("", queue, properties, delivery.body)

    return rewrite


def _visits(before: Hops, hop: Table) -> tuple[int, Hops]:
    """How often it came from there, and its list without that."""
    same = [
        one
        for one in before
        if isinstance(one, dict) and all(one.get(name) == hop.get(name) for name in ("uri", "queue"))
    ]
    counts = [one.get(VISIT_COUNT) for one in same]
    others = [one for one in before if not any(one is each for each in same)]
    return max([count for count in counts if isinstance(count, int)], default=0), others


def _telling_headers(delivery: Delivery, scan: PropertyScan) -> Table:
    """The headers, if there is one among them that matters here; most messages have none, and are not decoded."""
    payload = delivery.header_payload
    scan.scan(payload, 0, len(payload))
    for name in _TELLING if scan.flags & HEADERS else ():
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
    return properties_of(properties)
