"""Protocol Buffers on the wire, as far as etcd's messages need them: numbers, and bytes that may be messages.

A message is a row of fields, each a number that names it and a value; a field that has its default is left out, and one
that nobody knows is passed over. That is little enough to have it here, typed, rather than a library and generated code
for some thirty messages.

Not here: which fields a message has (`node.etcd.messages`).
"""

_VARINT = 0
_EIGHT_OCTETS = 1
_OCTETS = 2
_FOUR_OCTETS = 5
_WRAP = 1 << 64
_SIGN = 1 << 63


def number(field: int, value: int | bool) -> bytes:
    """An integer, a truth value or an enumeration's member."""
    return _varint(field << 3 | _VARINT) + _varint(int(value) % _WRAP) if value else b""


def octets(field: int, value: bytes) -> bytes:
    """A string of bytes."""
    return message(field, value) if value else b""


def text(field: int, value: str) -> bytes:
    return octets(field, value.encode())


def message(field: int, value: bytes) -> bytes:
    """Another message, there even if it is empty."""
    return _varint(field << 3 | _OCTETS) + _varint(len(value)) + value


class Message:
    """A message that was received. Whatever is no message is a `ValueError`."""

    __slots__ = ("_numbers", "_octets")

    def __init__(self, data: bytes) -> None:
        self._numbers: dict[int, int] = {}
        self._octets: dict[int, list[bytes]] = {}
        at = 0
        while at < len(data):
            tag, at = _read_varint(data, at)
            kind = tag & 7
            if kind == _VARINT:
                self._numbers[tag >> 3], at = _read_varint(data, at)
            elif kind == _OCTETS:
                size, at = _read_varint(data, at)
                if at + size > len(data):
                    raise ValueError("a field reaches beyond its message")
                self._octets.setdefault(tag >> 3, []).append(data[at : at + size])
                at += size
            elif kind in (_EIGHT_OCTETS, _FOUR_OCTETS):
                at += 8 if kind == _EIGHT_OCTETS else 4
            else:
                raise ValueError(f"no field is of kind {kind}")

    def number(self, field: int) -> int:
        """A signed integer."""
        value = self._numbers.get(field, 0)
        return value - _WRAP if value & _SIGN else value

    def identity(self, field: int) -> int:
        """An unsigned integer."""
        return self._numbers.get(field, 0)

    def flag(self, field: int) -> bool:
        return bool(self._numbers.get(field, 0))

    def octets(self, field: int) -> bytes:
        found = self._octets.get(field)
        return found[-1] if found else b""

    def text(self, field: int) -> str:
        return self.octets(field).decode("utf-8", "replace")

    def texts(self, field: int) -> list[str]:
        return [octets.decode("utf-8", "replace") for octets in self._octets.get(field, ())]

    def message(self, field: int) -> "Message":
        return Message(self.octets(field))

    def messages(self, field: int) -> "list[Message]":
        return [Message(octets) for octets in self._octets.get(field, ())]


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    septets = bytearray()
    while value >= 0x80:
        septets.append(value & 0x7F | 0x80)
        value >>= 7
    septets.append(value)
    return bytes(septets)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        octet = data[at]
        value |= (octet & 0x7F) << shift
        at += 1
        if octet < 0x80:
            return value % _WRAP, at
        shift += 7
    raise ValueError("a number has no end")
