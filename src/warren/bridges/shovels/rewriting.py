"""What a shovel publishes in the place of a delivery.

Properties and headers go on as they came, byte for byte, unless the definition asks for something: properties of its
own, a header with the time, or one that tells the way. The latter is a list, `x-shovelled`, whose first item is the
last shovel; what a client may have put there instead of a list is kept below `x-invalid-headers`, as RabbitMQ does.

Not here: when it is published and acked (`bridges.carrying`).
"""

import time
from typing import Final

from warren.bridges.carrying.terms import Outgoing, Rewrite, properties_as_they_came
from warren.bridges.shovels.definition import Definition, Destination
from warren.client.machine.deliveries import Delivery
from warren.wire.field_tables import Long
from warren.wire.properties import Properties, PropertyScan, decode_properties, edit_headers, encode_properties
from warren.wire.values import Table

SHOVELLED: Final = "x-shovelled"
SHOVELLED_AT: Final = "x-shovelled-timestamp"
INVALID_HEADERS: Final = "x-invalid-headers"
_FLAGS_AT: Final = 12
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 0x8000, 0x4000, 0x2000


def rewriting(shovel: Definition, cluster_name: str, source_uri: str, destination_uri: str) -> Rewrite:
    """The rewrite of one life, whose ends were reached by those URIs, which have no passwords in them."""
    destination = shovel.destination
    stamp = _stamp(shovel, cluster_name, source_uri, destination_uri) if destination.forward_headers else None
    is_plain = stamp is None and not destination.timestamp_header and not destination.properties
    exchange, key = _road(destination)

    def rewrite(delivery: Delivery) -> Outgoing:
        properties = properties_as_they_came(delivery) if is_plain else _edited(delivery, destination, stamp)
        return Outgoing(
            delivery.exchange if exchange is None else exchange,
            delivery.routing_key if key is None else key,
            properties,
            delivery.body,
        )

    return rewrite


def _road(destination: Destination) -> tuple[str | None, str | None]:
    """Exchange and key; None is the one it came with."""
    if destination.queue is not None:
        return "", destination.queue
    return destination.exchange, destination.exchange_key


def _stamp(shovel: Definition, cluster_name: str, source_uri: str, destination_uri: str) -> Table:
    stamp: Table = {
        "shovelled-by": cluster_name,
        "shovel-type": "dynamic",
        "shovel-name": shovel.name,
        "shovel-vhost": shovel.vhost,
        "src-uri": source_uri,
        "dest-uri": destination_uri,
    }
    return stamp | {name.replace("_", "-"): value for name, value in ends(shovel).items()}


def ends(shovel: Definition) -> dict[str, str]:
    """The queues and exchanges of a definition by RabbitMQ's names, without what it leaves open."""
    source, destination = shovel.source, shovel.destination
    found = {
        "src_queue": source.queue,
        "src_exchange": source.exchange,
        "src_exchange_key": None if source.exchange is None else source.exchange_key,
        "dest_queue": destination.queue,
        "dest_exchange": destination.exchange,
        "dest_exchange_key": destination.exchange_key if destination.queue is None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _edited(delivery: Delivery, destination: Destination, stamp: Table | None) -> bytes:
    """Flags and properties as they stand on the wire, with what the definition adds."""
    payload = delivery.header_payload
    added: Table = {}
    if stamp is not None:
        added |= _way(delivery.headers, stamp)
    if destination.timestamp_header:
        added[SHOVELLED_AT] = Long(int(time.time()))
    if added:
        payload = edit_headers(payload, [], added)
    if destination.properties:
        return _with_properties(payload, destination.properties)
    return payload[_FLAGS_AT:]


def _way(headers: Table, stamp: Table) -> Table:
    before = headers.get(SHOVELLED, [])
    if isinstance(before, list):
        return {SHOVELLED: [stamp, *before]}
    others = headers.get(INVALID_HEADERS)
    invalid: Table = dict(others) if isinstance(others, dict) else {}
    listed = invalid.get(SHOVELLED)
    invalid[SHOVELLED] = [before, *(listed if isinstance(listed, list) else [])]
    return {INVALID_HEADERS: invalid, SHOVELLED: [stamp]}


def _with_properties(payload: bytes, wanted: Table) -> bytes:
    """Some properties replaced; the headers are put back as they were, because a decoded table forgets widths."""
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    table = payload[int(scan.headers_start) - 4 : int(scan.headers_end)] if int(scan.flags) & _HEADERS else b""
    fields = dict(decode_properties(payload, 0, len(payload)).fields()) | wanted | {"headers": None}
    return _with_table(encode_properties(_properties(fields)), table)


def _properties(fields: Table) -> Properties:
    properties = Properties()
    for name, value in fields.items():
        setattr(properties, name, int(value) if isinstance(value, float) else value)
    return properties


def _with_table(encoded: bytes, table: bytes) -> bytes:
    """Properties that were encoded without headers, with the bytes of a header table among them."""
    if not table:
        return encoded
    flags = int.from_bytes(encoded[:2])
    at = 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            at += 1 + encoded[at]
    return (flags | _HEADERS).to_bytes(2) + encoded[2:at] + table + encoded[at:]
