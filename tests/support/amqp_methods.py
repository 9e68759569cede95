"""Every method of AMQP 0-9-1 with RabbitMQ's extensions, as a table: name, class id, method id, arguments.

Invariant: the arguments stand in the order of the wire, each with its type; one without is a bit, and consecutive bits
share octets.

Not here: the encoding of one argument (`amqp_values`), the order of methods (`amqp_client`).
"""

from collections.abc import Mapping
from typing import Any

from tests.support.amqp_values import Reader, write_argument

_DEFINITIONS = """
connection.start 10 10 major:octet minor:octet server_properties:table mechanisms:longstr locales:longstr
connection.start-ok 10 11 client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.secure 10 20 challenge:longstr
connection.secure-ok 10 21 response:longstr
connection.tune 10 30 channel_max:short frame_max:long heartbeat:short
connection.tune-ok 10 31 channel_max:short frame_max:long heartbeat:short
connection.open 10 40 virtual_host:shortstr capabilities:shortstr insist
connection.open-ok 10 41 known_hosts:shortstr
connection.close 10 50 reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok 10 51
connection.blocked 10 60 reason:shortstr
connection.unblocked 10 61
connection.update-secret 10 70 new_secret:longstr reason:shortstr
connection.update-secret-ok 10 71
channel.open 20 10 out_of_band:shortstr
channel.open-ok 20 11 channel_id:longstr
channel.flow 20 20 active
channel.flow-ok 20 21 active
channel.close 20 40 reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok 20 41
access.request 30 10 realm:shortstr exclusive passive active write read
access.request-ok 30 11 ticket:short
exchange.declare 40 10 ticket:short exchange:shortstr type:shortstr \
passive durable auto_delete internal nowait arguments:table
exchange.declare-ok 40 11
exchange.delete 40 20 ticket:short exchange:shortstr if_unused nowait
exchange.delete-ok 40 21
exchange.bind 40 30 ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait arguments:table
exchange.bind-ok 40 31
exchange.unbind 40 40 ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait arguments:table
exchange.unbind-ok 40 51
queue.declare 50 10 ticket:short queue:shortstr passive durable exclusive auto_delete nowait arguments:table
queue.declare-ok 50 11 queue:shortstr message_count:long consumer_count:long
queue.bind 50 20 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait arguments:table
queue.bind-ok 50 21
queue.purge 50 30 ticket:short queue:shortstr nowait
queue.purge-ok 50 31 message_count:long
queue.delete 50 40 ticket:short queue:shortstr if_unused if_empty nowait
queue.delete-ok 50 41 message_count:long
queue.unbind 50 50 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok 50 51
basic.qos 60 10 prefetch_size:long prefetch_count:short global
basic.qos-ok 60 11
basic.consume 60 20 ticket:short queue:shortstr consumer_tag:shortstr no_local no_ack exclusive nowait arguments:table
basic.consume-ok 60 21 consumer_tag:shortstr
basic.cancel 60 30 consumer_tag:shortstr nowait
basic.cancel-ok 60 31 consumer_tag:shortstr
basic.publish 60 40 ticket:short exchange:shortstr routing_key:shortstr mandatory immediate
basic.return 60 50 reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver 60 60 consumer_tag:shortstr delivery_tag:longlong redelivered exchange:shortstr routing_key:shortstr
basic.get 60 70 ticket:short queue:shortstr no_ack
basic.get-ok 60 71 delivery_tag:longlong redelivered exchange:shortstr routing_key:shortstr message_count:long
basic.get-empty 60 72 cluster_id:shortstr
basic.ack 60 80 delivery_tag:longlong multiple
basic.reject 60 90 delivery_tag:longlong requeue
basic.recover-async 60 100 requeue
basic.recover 60 110 requeue
basic.recover-ok 60 111
basic.nack 60 120 delivery_tag:longlong multiple requeue
confirm.select 85 10 nowait
confirm.select-ok 85 11
tx.select 90 10
tx.select-ok 90 11
tx.commit 90 20
tx.commit-ok 90 21
tx.rollback 90 30
tx.rollback-ok 90 31
"""

Layout = tuple[tuple[str, str], ...]


def _parse(line: str) -> tuple[str, tuple[int, int], Layout]:
    name, class_id, method_id, *arguments = line.split()
    layout = tuple((field, kind or "bit") for field, _, kind in (argument.partition(":") for argument in arguments))
    return name, (int(class_id), int(method_id)), layout


_PARSED = tuple(_parse(line) for line in _DEFINITIONS.strip().splitlines())
IDS: dict[str, tuple[int, int]] = {name: ids for name, ids, _ in _PARSED}
NAMES: dict[tuple[int, int], str] = {ids: name for name, ids, _ in _PARSED}
LAYOUTS: dict[str, Layout] = {name: layout for name, _, layout in _PARSED}
CARRIES_CONTENT = frozenset({"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"})

_EMPTY: dict[str, Any] = {
    "bit": False, "octet": 0, "short": 0, "long": 0, "longlong": 0, "shortstr": "", "longstr": b"", "table": {},
}  # fmt: skip


def write_method(name: str, fields: Mapping[str, Any]) -> bytes:
    """The payload of a method frame; an argument not named is zero, false or empty."""
    layout = LAYOUTS[name]
    unknown = set(fields) - {field for field, _ in layout}
    assert not unknown, f"{name} has no {unknown}"
    class_id, method_id = IDS[name]
    payload = class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big")
    bits: list[bool] = []
    for field, kind in layout:
        value = fields.get(field, _EMPTY[kind])
        if kind == "bit":
            bits.append(bool(value))
            continue
        payload += _write_bits(bits) + write_argument(kind, value)
        bits = []
    return payload + _write_bits(bits)


def _write_bits(bits: list[bool]) -> bytes:
    return bytes((sum(bit << position for position, bit in enumerate(bits)),)) if bits else b""


def read_method(payload: bytes) -> tuple[str, dict[str, Any]]:
    reader = Reader(payload)
    ids = (reader.number(">H"), reader.number(">H"))
    assert ids in NAMES, f"the server sent an unknown method {ids}"
    name = NAMES[ids]
    fields: dict[str, Any] = {}
    bit, octet = 0, 0
    for field, kind in LAYOUTS[name]:
        if kind == "bit":
            octet = reader.octets(1)[0] if bit == 0 else octet
            fields[field] = bool(octet >> bit & 1)
            bit += 1
            continue
        bit = 0
        fields[field] = reader.argument(kind)
    assert reader.at == len(payload), f"{name} has octets to spare: {payload[reader.at :]!r}"
    return name, fields
