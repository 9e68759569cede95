"""A record as text, octet for octet as RabbitMQ's tracing plugin writes it.

Names and the payload are written as the octets they are; lists of names and the properties are Erlang terms.

Not here: the layout of terms (`tracing.erlang_terms`).
"""

from typing import cast

from warren.admin.tracing import erlang_terms as terms
from warren.admin.tracing.records import CONFIRMED, DEAD_LETTERED, PUBLISHED, REJECTED, TraceRecord
from warren.admin.tracing.typed_fields import Field, Typed

_RULE = b"=" * 80


def text_of(record: TraceRecord) -> bytes:
    is_publish = record.type == PUBLISHED
    lines = [
        b"",
        _RULE,
        f"{record.timestamp}: Message {record.type}".encode(),
        b"",
        b"Node:         " + record.node,
        b"Connection:   " + record.connection,
        b"Virtual host: " + record.vhost,
        b"User:         " + record.user,
        b"Channel:      %d" % record.channel,
        b"Exchange:     " + record.exchange,
        _term(b"Routing keys: ", _names(record.routing_keys)),
        _term(b"Routed queues: ", _names(record.routed_queues)) if is_publish else b"Queue:        " + record.queue,
        *_beyond_rabbitmq(record),
        _term(b"Properties:   ", _table(record.properties)),
        b"Payload: ",
        record.payload,
        b"",
    ]
    return b"\n".join(lines)


def _beyond_rabbitmq(record: TraceRecord) -> list[bytes]:
    """What it has no word for."""
    if record.type == CONFIRMED:
        return [b"Epoch:        %d" % record.epoch, _term(b"Held by:      ", _names(record.nodes))]
    if record.type == REJECTED:
        return [b"Reason:       " + record.reason]
    if record.type == DEAD_LETTERED:
        return [b"Reason:       " + record.reason, _term(b"Routed queues: ", _names(record.routed_queues))]
    return []


def _term(label: bytes, term: terms.Term) -> bytes:
    return label + terms.laid_out(term, len(label) + 1)


def _names(names: list[bytes]) -> terms.Term:
    return terms.row([terms.binary(name) for name in names])


def _table(fields: list[Field]) -> terms.Term:
    return terms.row([terms.together(terms.binary(field.name), *_typed(field.content)) for field in fields])


def _typed(content: Typed) -> tuple[terms.Term, terms.Term]:
    return terms.atom(content.type), _value(content)


def _value(content: Typed) -> terms.Term:
    value = content.value
    if isinstance(value, list):
        if content.type == "table":
            return _table(cast(list[Field], value))
        return terms.row([terms.together(*_typed(item)) for item in cast(list[Typed], value)])
    if isinstance(value, bytes):
        return terms.binary(value)
    if isinstance(value, tuple):
        return terms.together(*(terms.integer(part) for part in value))
    if value is None:
        return terms.atom("undefined")
    if isinstance(value, bool):
        return terms.atom("true" if value else "false")
    return terms.real(value) if isinstance(value, float) else terms.integer(value)
