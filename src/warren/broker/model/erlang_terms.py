"""AMQP field values and JSON values in reply texts, printed as Erlang terms, as RabbitMQ does.

AMQP values: `type_name`, `printed_value` and `term` print a `longstr`, `<<"text">>`, `{2,314}`. Decoding loses integer
widths: an integer gets the name of the type that clients use for its size, and any float is a double.

JSON values: `json_term` breaks lines at 80 columns. A string is a binary, an object is a map with sorted keys. A list
of numbers that are all characters is printed as a string. A tuple, which JSON does not have, is an Erlang tuple.

Not here: comparing values (`broker.model.equivalence`, `broker.routing.comparison`).
"""

from decimal import Decimal
from typing import Final

from warren.wire.field_tables import Timestamp


def type_name(value: object) -> str:
    """RabbitMQ's name for the type of a field value."""
    if value is None:
        return "void"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "table"
    return "timestamp" if isinstance(value, Timestamp) else "decimal"


def printed_value(value: object) -> str:
    """A value in a sentence: text as it is, other values as terms."""
    if isinstance(value, str):
        return value
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else term(value)


def term(value: object) -> str:
    """A value as an Erlang term."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _binary(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return _binary(value)
    if isinstance(value, list):
        return "[" + ",".join([f"{{{type_name(item)},{term(item)}}}" for item in value]) + "]"
    if isinstance(value, dict):
        fields = [f"{{{term(name)},{type_name(field)},{term(field)}}}" for name, field in value.items()]
        return "[" + ",".join(fields) + "]"
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, Decimal):
        return _decimal(value)
    return _float(value) if isinstance(value, float) else str(value)


def _binary(octets: bytes) -> str:
    """Quoted if every octet is a printable Latin-1 character, else as numbers."""
    for octet in octets:
        if octet < 0x20 or 0x7E < octet < 0xA0:
            return "<<" + ",".join([str(octet) for octet in octets]) + ">>"
    if not octets:
        return "<<>>"
    quoted = octets.decode("utf-8", "surrogateescape").replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{quoted}">>'


def _decimal(value: Decimal) -> str:
    shown = value.as_tuple()
    exponent = shown.exponent
    scale = -exponent if isinstance(exponent, int) else 0
    return f"{{{scale},{int(value.scaleb(scale))}}}"


def _float(value: float) -> str:
    """The shortest text that parses as the same number, always with a point: 1.0e30."""
    mantissa, mark, exponent = repr(value).partition("e")
    if mark and "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}" if mark else mantissa


LINE_COLUMNS: Final = 80
ESCAPES: Final = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}


def json_term(value: object, column: int = 0) -> str:
    """A value printed from this column on: on one line if it fits, else one item on each line."""
    flat = _flat(value)
    if len(flat) < LINE_COLUMNS - column - 1:
        return flat
    if isinstance(value, tuple):
        return "{" + _separator(column).join([json_term(item, column + 1) for item in value]) + "}"
    if isinstance(value, list) and not _is_text(value):
        return "[" + _filled(value, column + 1) + "]"
    if isinstance(value, dict):
        fields = [f"{_json_binary(name)} => {json_term(value[name], column + 6)}" for name in sorted(value)]
        return "#{" + _separator(column + 1).join(fields) + "}"
    return flat


def _flat(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _json_binary(value)
    if isinstance(value, list):
        if _is_text(value):
            return _quoted(value)
        return "[" + ",".join([_flat(item) for item in value]) + "]"
    if isinstance(value, tuple):
        return "{" + ",".join([_flat(item) for item in value]) + "}"
    if isinstance(value, dict):
        return "#{" + ",".join([f"{_json_binary(name)} => {_flat(value[name])}" for name in sorted(value)]) + "}"
    return term(value)


def _json_binary(text: str) -> str:
    """Quoted if every octet is a printable Latin-1 character or has an escape, else as numbers."""
    octets = text.encode("utf-8", "surrogateescape")
    if not octets:
        return "<<>>"
    for octet in octets:
        if not _is_character(octet):
            return "<<" + ",".join([str(octet) for octet in octets]) + ">>"
    return f"<<{_escaped(text)}>>"


def _is_text(items: list[object]) -> bool:
    """Whether a list is a string in Erlang."""
    codes = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and _is_character(item)]
    return len(codes) == len(items) > 0


def _quoted(items: list[object]) -> str:
    return _escaped("".join([chr(item) for item in items if isinstance(item, int)]))


def _escaped(text: str) -> str:
    return '"' + "".join([ESCAPES.get(ord(character), character) for character in text]) + '"'


def _is_character(code: int) -> bool:
    return 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF or (code in ESCAPES)


def _filled(items: list[object], column: int) -> str:
    """Items of a list, as many on a line as fit; each tuple, list and map has its own line."""
    lines: list[str] = []
    for item in items:
        shown = json_term(item, column)
        plain = not isinstance(item, tuple | list | dict)
        if plain and lines and len(lines[-1]) + len(shown) + column + 2 < LINE_COLUMNS:
            lines[-1] += "," + shown
        else:
            lines.append(shown)
    return _separator(column - 1).join(lines)


def _separator(column: int) -> str:
    return ",\n" + " " * (column + 1)
