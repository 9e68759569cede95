"""Records of a trace as text and as JSON.

*Text*, byte for byte as RabbitMQ's tracing plugin writes it: names and the payload as raw bytes; lists of names and the
properties as Erlang terms. A term is on one line if it fits into 80 columns. If not, it is broken: simple elements
follow one another while the line has room, and a compound element starts a line. Elements of a tuple that begins with
an atom are aligned after the atom. Bytes that are printable in Latin-1 are a quoted string, which is never broken;
others are numbers, broken where the line is full. One difference remains: Erlang indents arrays less if they are nested
so deeply that they would run off the line.

*JSON*: one line with the fields of RabbitMQ's tracing plugin and a schema version. Each field has one type in all
records, so that readers need one schema: `routed_queues` is always an array, where RabbitMQ writes the text `none` for
received messages. Bytes that are not UTF-8 become a text that begins with `Not UTF-8, base64 is: `, as in RabbitMQ. The
payload is always base64. docs/tracing.md describes every field. A change to a field's name, type or meaning increases
`SCHEMA_VERSION` there and here; a new field does not.

Not here: the record (`tracing.records`).
"""

import base64
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from warren.admin.http.responses import to_json
from warren.admin.tracing.records import (
    CONFIRMED,
    DEAD_LETTERED,
    PUBLISHED,
    REJECTED,
    TraceRecord,
    TypedField,
    TypedValue,
)
from warren.wire.octet_text import text_of_octets

COLUMNS = 80
_ESCAPED = {
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0B: b"\\v",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x1B: b"\\e",
    0x22: b'\\"',
    0x5C: b"\\\\",
}
_PRINTABLE = frozenset([*range(0x20, 0x7F), *range(0xA0, 0x100), *_ESCAPED])
_EXACT_INTEGERS = 2.0**53


@dataclass(frozen=True)
class ErlangScalar:
    """A term without elements: an atom, a number, a string."""

    line: bytes
    is_atom: bool = False


@dataclass(frozen=True)
class ErlangBinary:
    """Bytes that are not printable."""

    octets: bytes

    @cached_property
    def line(self) -> bytes:
        return b"<<" + b",".join(self.numbers) + b">>"

    @cached_property
    def numbers(self) -> list[bytes]:
        return [b"%d" % octet for octet in self.octets]


@dataclass(frozen=True)
class ErlangSequence:
    """A list or a tuple."""

    elements: "list[ErlangTerm]"
    brackets: bytes

    @cached_property
    def line(self) -> bytes:
        inside = b",".join(element.line for element in self.elements)
        return self.brackets[:1] + inside + self.brackets[1:]

    @property
    def is_tagged(self) -> bool:
        first = self.elements[0]
        return self.brackets == b"{}" and len(self.elements) > 1 and isinstance(first, ErlangScalar) and first.is_atom


ErlangTerm = ErlangScalar | ErlangBinary | ErlangSequence


def atom(name: str) -> ErlangTerm:
    return ErlangScalar(name.encode(), is_atom=True)


def integer(value: int) -> ErlangTerm:
    return ErlangScalar(b"%d" % value)


def binary(octets: bytes) -> ErlangTerm:
    if not all(octet in _PRINTABLE for octet in octets):
        return ErlangBinary(octets)
    if not octets:
        return ErlangScalar(b"<<>>")
    return ErlangScalar(b'<<"' + b"".join(_ESCAPED.get(octet) or bytes([octet]) for octet in octets) + b'">>')


def real(value: float) -> ErlangTerm:
    """The shortest digits for this number, with or without an exponent."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return ErlangScalar(f"{sign}0.0".encode())
    scientific = f"{digits[0]}.{digits[1:] or '0'}e{point - 1}"
    written_out = _written_out(digits, point)
    shorter = scientific if abs(value) >= _EXACT_INTEGERS or len(scientific) < len(written_out) else written_out
    return ErlangScalar((sign + shorter).encode())


def _written_out(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits)) + ".0"
    return digits[:point] + "." + digits[point:]


def erlang_list(elements: list[ErlangTerm]) -> ErlangTerm:
    return ErlangSequence(elements, b"[]") if elements else ErlangScalar(b"[]")


def erlang_tuple(*elements: ErlangTerm) -> ErlangTerm:
    return ErlangSequence(list(elements), b"{}")


def pretty_printed(term: ErlangTerm, column: int) -> bytes:
    """The text of the term, which begins in this column (the first is 1)."""
    return _pretty_printed(term, column, 0)


def _pretty_printed(term: ErlangTerm, column: int, closing: int) -> bytes:
    """`closing` is the number of brackets that follow on the same line."""
    if isinstance(term, ErlangScalar) or len(term.line) < COLUMNS - column - closing:
        return term.line
    if isinstance(term, ErlangBinary):
        return _broken(term.numbers, column + 2, closing)
    opening, end = term.brackets[:1], term.brackets[1:]
    if term.is_tagged:
        tag = term.elements[0].line
        rest = _in_lines(term.elements[1:], column + len(tag) + 2, closing)
        return opening + tag + b"," + rest + end
    return opening + _in_lines(term.elements, column + 1, closing) + end


def _in_lines(elements: list[ErlangTerm], margin: int, closing: int) -> bytes:
    parts: list[bytes] = []
    column = 0
    for at, element in enumerate(elements):
        behind = closing + 1 if at == len(elements) - 1 else 0
        # room for a comma or closing brackets after this element
        reserve = max(behind, 1) + 1
        goes_on = at and isinstance(element, ErlangScalar) and len(element.line) + reserve < COLUMNS - column
        if goes_on:
            parts.append(b"," + element.line)
            column += 1 + len(element.line)
            continue
        if at:
            parts.append(b",\n" + b" " * (margin - 1))
        parts.append(_pretty_printed(element, margin, behind))
        alone = not isinstance(element, ErlangScalar) or len(element.line) >= COLUMNS - margin - behind
        column = COLUMNS if alone else margin + len(element.line)
    return b"".join(parts)


def _broken(numbers: list[bytes], margin: int, closing: int) -> bytes:
    width = max(8, COLUMNS - margin - closing)
    room = width
    parts: list[bytes] = []
    for at, number in enumerate(numbers):
        word = number if at == len(numbers) - 1 else number + b","
        if len(word) > room:
            parts.append(b"\n" + b" " * (margin - 1))
            room = width
        parts.append(word)
        room -= len(word)
    return b"<<" + b"".join(parts) + b">>"


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
        _term(b"Properties:   ", _table_term(record.properties)),
        b"Payload: ",
        record.payload,
        b"",
    ]
    return b"\n".join(lines)


def _beyond_rabbitmq(record: TraceRecord) -> list[bytes]:
    """Fields that RabbitMQ does not have."""
    if record.type == CONFIRMED:
        return [b"Epoch:        %d" % record.epoch, _term(b"Held by:      ", _names(record.nodes))]
    if record.type == REJECTED:
        return [b"Reason:       " + record.reason]
    if record.type == DEAD_LETTERED:
        return [b"Reason:       " + record.reason, _term(b"Routed queues: ", _names(record.routed_queues))]
    return []


def _term(label: bytes, term: ErlangTerm) -> bytes:
    return label + pretty_printed(term, len(label) + 1)


def _names(names: list[bytes]) -> ErlangTerm:
    return erlang_list([binary(name) for name in names])


def _table_term(fields: list[TypedField]) -> ErlangTerm:
    return erlang_list([erlang_tuple(binary(field.name), *_typed(field.content)) for field in fields])


def _typed(content: TypedValue) -> tuple[ErlangTerm, ErlangTerm]:
    return atom(content.type), _value_term(content)


def _value_term(content: TypedValue) -> ErlangTerm:
    value = content.value
    if isinstance(value, list):
        if content.type == "table":
            return _table_term(cast(list[TypedField], value))
        return erlang_list([erlang_tuple(*_typed(item)) for item in cast(list[TypedValue], value)])
    if isinstance(value, bytes):
        return binary(value)
    if isinstance(value, tuple):
        return erlang_tuple(*(integer(part) for part in value))
    if value is None:
        return atom("undefined")
    if isinstance(value, bool):
        return atom("true" if value else "false")
    return real(value) if isinstance(value, float) else integer(value)


SCHEMA_VERSION = 1
NO_QUEUE = "none"


def json_of(record: TraceRecord) -> bytes:
    return to_json(document_of(record)) + b"\n"


def document_of(record: TraceRecord) -> dict[str, Any]:
    return {
        "channel": record.channel,
        "connection": text_of_octets(record.connection),
        "epoch": record.epoch,
        "exchange": text_of_octets(record.exchange),
        "node": text_of_octets(record.node),
        "nodes": [text_of_octets(name) for name in record.nodes],
        "payload": base64.b64encode(record.payload).decode(),
        "properties": _table_json(record.properties),
        "queue": NO_QUEUE if record.type == PUBLISHED else text_of_octets(record.queue),
        "reason": text_of_octets(record.reason),
        "redelivered": record.redelivered,
        "routed_queues": [text_of_octets(name) for name in record.routed_queues],
        "routing_keys": [text_of_octets(key) for key in record.routing_keys],
        "schema_version": SCHEMA_VERSION,
        "timestamp": record.timestamp,
        "type": record.type,
        "user": text_of_octets(record.user),
        "vhost": text_of_octets(record.vhost),
    }


def _table_json(fields: list[TypedField]) -> dict[str, Any]:
    return {text_of_octets(field.name): _value_json(field.content) for field in fields}


def _value_json(content: TypedValue) -> Any:
    value = content.value
    if isinstance(value, list):
        if content.type == "table":
            return _table_json(cast(list[TypedField], value))
        return [_value_json(item) for item in cast(list[TypedValue], value)]
    if isinstance(value, bytes):
        return text_of_octets(value)
    if isinstance(value, tuple):
        scale, digits = value
        return digits / 10**scale
    if value is None:
        return "undefined"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
