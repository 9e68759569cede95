"""Field values in reply texts as Erlang terms, where RabbitMQ prints them so: `<<"text">>`, `{2,314}`.

Not here: the names of their types (`model.arguments`), comparing values (`comparison`).
"""

from decimal import Decimal

from warren.model.arguments import type_name
from warren.wire.values import Timestamp


def term(value: object) -> str:
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
