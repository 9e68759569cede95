"""Field values in reply texts, as RabbitMQ names and prints them: a `longstr`, `<<"text">>`, `{2,314}`.

Widths do not survive decoding: an integer is called by the type that clients give one of its size, any float a double.

Not here: comparing values (`model.equivalence`, `routing.comparison`).
"""

from decimal import Decimal

from warren.wire.values import Timestamp


def type_name(value: object) -> str:
    """RabbitMQ's word for the type of a field value."""
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


def shown(value: object) -> str:
    """A value within a sentence: text as it is, anything else as a term."""
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
    """Quoted if every octet would be a printable Latin-1 character, else as numbers."""
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
    """The shortest text that reads back as the same number, always with a point: 1.0e30."""
    mantissa, mark, exponent = repr(value).partition("e")
    if mark and "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}" if mark else mantissa
