"""The permitted replies of a node: whole frames, known methods, known reply codes, content that fits its header.

Not here: the requests (`attackers`).
"""

import struct

from warren.errors import REPLY_NAMES
from warren.wire.frames import BODY, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER
from warren.wire.methods import decode_method
from warren.wire.properties import decode_properties

CONNECTION_OPEN_OK = 10 << 16 | 41
CONNECTION_CLOSE = 10 << 16 | 50
CONNECTION_CLOSE_OK = 10 << 16 | 51
CHANNEL_CLOSE = 20 << 16 | 40
CARRY_CONTENT = (60 << 16 | 50, 60 << 16 | 60, 60 << 16 | 71)
SERVER_METHODS = {
    class_id << 16 | method_id
    for class_id, methods in {
        10: (10, 20, 30, 41, 50, 51, 60, 61, 71),
        20: (11, 20, 21, 40, 41),
        30: (11,),
        40: (11, 21, 31, 51),
        50: (11, 21, 31, 41, 51),
        60: (11, 21, 30, 31, 50, 60, 71, 72, 80, 111, 120),
        85: (11,),
        90: (11, 21, 31),
    }.items()
    for method_id in methods
}
_PREFIX = struct.Struct(">BHI")
_IDS = struct.Struct(">I")


class Malformed(Exception):
    """The node sent a reply that is not valid AMQP."""


class Replies:
    """Checks everything that one connection is sent."""

    def __init__(self) -> None:
        self.opened = False
        self.close_code = 0
        # channels the node closed, until close-ok
        self.closed_channels: list[int] = []
        self.bodies: list[bytes] = []
        self.confirmed = 0
        # by channel: the octets of body still due, -1 before the header came
        self._due: dict[int, int] = {}
        self._parts: dict[int, list[bytes]] = {}

    def read(self, data: bytes) -> None:
        """One turn's bytes; a turn ends with a frame."""
        at = len(PROTOCOL_HEADER) if data.startswith(PROTOCOL_HEADER) else 0
        size = len(data)
        while at < size:
            if size - at < 8:
                raise Malformed(f"{size - at} octets that are no frame")
            kind, channel, length = _PREFIX.unpack_from(data, at)
            start = at + 7
            at = start + length + 1
            if at > size or data[at - 1] != 0xCE:
                raise Malformed(f"a frame of type {kind} and {length} octets without its end")
            if kind == METHOD:
                self._method(channel, data, start, at - 1)
            elif kind == HEADER:
                self._header(channel, data[start : at - 1])
            elif kind == BODY:
                self._body(channel, data[start : at - 1])
            elif kind != HEARTBEAT or channel or length:
                raise Malformed(f"a frame of type {kind} on channel {channel}")

    def _method(self, channel: int, data: bytes, start: int, end: int) -> None:
        (method,) = _IDS.unpack_from(data, start)
        if method not in SERVER_METHODS:
            raise Malformed(f"method {method >> 16}.{method & 0xFFFF}")
        if channel in self._due:
            raise Malformed("a method where content is due")
        if self.close_code and method != CONNECTION_CLOSE_OK:
            raise Malformed(f"method {method >> 16}.{method & 0xFFFF} after connection.close")
        if method in CARRY_CONTENT:
            self._due[channel] = -1
        elif method == CONNECTION_OPEN_OK:
            self.opened = True
        elif method in (CONNECTION_CLOSE, CHANNEL_CLOSE):
            self._close(channel, data[start + 4 : end])
        elif method == 60 << 16 | 80:
            self.confirmed = int.from_bytes(data[start + 4 : start + 12], "big")
        else:
            decode_method(data, start, end)

    def _close(self, channel: int, arguments: bytes) -> None:
        """Code, text and the method blamed. The text may quote a name that is not UTF-8, as it came."""
        code, text_bytes = struct.unpack_from(">HB", arguments)
        text = arguments[3 : 3 + text_bytes]
        if code not in REPLY_NAMES:
            raise Malformed(f"reply code {code}")
        if not text.startswith(REPLY_NAMES[code].encode() + b" - ") or len(arguments) != 7 + text_bytes:
            raise Malformed(f"reply text {text!r} with code {code}")
        if channel:
            self.closed_channels.append(channel)
        else:
            self.close_code = code

    def _header(self, channel: int, payload: bytes) -> None:
        if self._due.get(channel) != -1:
            raise Malformed("a content header that nothing announced")
        decode_properties(payload, 0, len(payload))
        class_id, weight, size = struct.unpack_from(">HHQ", payload)
        if class_id != 60 or weight:
            raise Malformed(f"a content header of class {class_id}, weight {weight}")
        self._parts[channel] = []
        self._settle(channel, size)

    def _body(self, channel: int, body: bytes) -> None:
        due = self._due.get(channel, -1)
        if len(body) > due:
            raise Malformed(f"{len(body)} octets of body where {due} are due")
        self._parts[channel].append(body)
        self._settle(channel, due - len(body))

    def _settle(self, channel: int, due: int) -> None:
        if due:
            self._due[channel] = due
        else:
            del self._due[channel]
            self.bodies.append(b"".join(self._parts.pop(channel)))
