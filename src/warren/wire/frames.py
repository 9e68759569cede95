"""Bytes to frames, and writers for the frames that are too frequent for `wire.methods`.

`FrameReader` takes one socket read at a time and steps from frame to frame without copying: after `next()` its
attributes say where in `data` the payload is. `take_content()` consumes the header frame and the body frame after a
publish in one step, so a message stays one slice.

Invariants: a frame longer than `payload_max` is refused before its payload arrives; at most one incomplete frame is
buffered; the pieces of an incomplete frame are joined once, when the frame is complete, however small the reads.

Not here: the meaning of the payloads (`wire.methods`, `wire.properties`), which frame may follow which
(`broker.sessions.connection`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from warren.errors import FRAME_ERROR, ConnectionFault

METHOD: Final[i64] = 1
HEADER: Final[i64] = 2
BODY: Final[i64] = 3
HEARTBEAT: Final[i64] = 8
FRAME_END: Final[i64] = 0xCE

FRAME_OVERHEAD: Final[i64] = 8
"""Octets of a frame around its payload: type, channel, size, end."""

FRAME_MIN: Final = 4096
"""The smallest frame_max a peer may ask for."""

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"


@final
class FrameReader:
    """Iterates over the frames of one connection's input."""

    def __init__(self, frame_max: i64) -> None:
        self.data: bytes = b""
        self.position: i64 = 0
        # RabbitMQ lets the payload alone be as long as frame_max
        self.payload_max: i64 = frame_max
        # the frame at which `next()` stopped
        self.frame_type: i64 = 0
        self.channel: i64 = 0
        self.frame_start: i64 = 0
        self.start: i64 = 0
        self.end: i64 = 0
        # the content `take_content()` took
        self.content_start: i64 = 0
        self.header_start: i64 = 0
        self.header_end: i64 = 0
        self.body_bytes: i64 = 0
        # the framing itself is damaged: the start of the next frame is unknown
        self.broken: bool = False
        self._wanted: i64 = 0
        self._pending: list[bytes] = []
        self._pending_bytes: i64 = 0

    def feed(self, data: bytes) -> None:
        """Add one read. An incomplete frame is joined with it once enough bytes are there."""
        if self._pending_bytes == 0:
            self.data = data if self.position == len(self.data) else self.data[self.position :] + data
            self.position = 0
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes < self._wanted:
            return
        self.data = b"".join(self._pending)
        self.position = 0
        self._pending = []
        self._pending_bytes = 0

    def next(self) -> bool:
        """Step to the next complete frame; False if more bytes are needed."""
        data = self.data
        position: i64 = self.position
        have: i64 = len(data) - position
        if have < FRAME_OVERHEAD:
            self._check_size(data[position:])
            return self._await(have, FRAME_OVERHEAD)
        # one 64-bit read has type, channel and size, and one octet more
        word: i64 = read_i64_be(data, position)
        size: i64 = (word >> 8) & 0xFFFFFFFF
        if size > self.payload_max:
            self.broken = True
            raise frame_too_large((word >> 56) & 0xFF, size, self.payload_max)
        if have < size + FRAME_OVERHEAD:
            return self._await(have, size + FRAME_OVERHEAD)
        end: i64 = position + 7 + size
        self.frame_type = (word >> 56) & 0xFF
        self.channel = (word >> 40) & 0xFFFF
        self.frame_start = position
        self.start = position + 7
        self.end = end
        self.position = end + 1
        if data[end] != FRAME_END:
            self.broken = True
            reason = f"{{invalid_frame_end_marker,{data[end]}}}"
            raise ConnectionFault(FRAME_ERROR, f"{described(self.frame_type, self.payload())}: {reason}")
        return True

    def take_content(self) -> bool:
        """Consume header and body if both are complete, on this channel, in at most one body frame; else do nothing."""
        data = self.data
        at: i64 = self.position
        have: i64 = len(data)
        if have - at < 22:
            return False
        channel: i64 = self.channel
        word: i64 = read_i64_be(data, at)
        header_size: i64 = (word >> 8) & 0xFFFFFFFF
        header_end: i64 = at + 7 + header_size
        if word >> 40 != HEADER << 16 | channel or header_size < 14 or header_size > self.payload_max:
            return False
        # class basic, weight 0; the general path handles, or refuses, any other header
        if header_end >= have or data[header_end] != FRAME_END or read_i64_be(data, at + 7) >> 32 != 60 << 16:
            return False
        body_bytes: i64 = read_i64_be(data, at + 11)
        after: i64 = header_end + 1
        if body_bytes != 0:
            if have - after < 8:
                return False
            word = read_i64_be(data, after)
            if word >> 40 != BODY << 16 | channel or (word >> 8) & 0xFFFFFFFF != body_bytes:
                return False
            if body_bytes > self.payload_max or have - after < body_bytes + FRAME_OVERHEAD:
                return False
            if data[after + 7 + body_bytes] != FRAME_END:
                return False
            after += body_bytes + FRAME_OVERHEAD
        self.content_start = at
        self.header_start = at + 7
        self.header_end = header_end
        self.body_bytes = body_bytes
        self.position = after
        return True

    def method_end(self, start: i64) -> i64:
        """The end of the complete method frame of the current channel at `start`; 0 if there is none."""
        data = self.data
        have: i64 = len(data)
        if have - start < FRAME_OVERHEAD:
            return 0
        channel: i64 = self.channel
        word: i64 = read_i64_be(data, start)
        size: i64 = (word >> 8) & 0xFFFFFFFF
        end: i64 = start + 7 + size
        if word >> 40 != METHOD << 16 | channel or size > self.payload_max or end >= have:
            return 0
        return end + 1 if data[end] == FRAME_END else 0

    def step_back(self) -> None:
        """Make `next()` return the same frame again."""
        self.position = self.frame_start

    def frame(self) -> bytes:
        """The whole frame at which `next()` stopped, from type to end octet."""
        return self.data[self.frame_start : self.position]

    def payload(self) -> bytes:
        return self.data[self.start : self.end]

    def buffered_bytes(self) -> i64:
        return self._pending_bytes

    def _check_size(self, head: bytes) -> None:
        """Refuse a frame that is too large before its payload arrives."""
        size = int.from_bytes(head[3:7], "big")
        if len(head) == 7 and size > self.payload_max:
            self.broken = True
            raise frame_too_large(head[0], size, self.payload_max)

    def _await(self, have: i64, wanted: i64) -> bool:
        if have > 0:
            rest = self.data[self.position :] if self.position else self.data
            self._pending.append(rest)
            self._pending_bytes = have
            self._wanted = wanted
        self.data = b""
        self.position = 0
        return False


def frame_too_large(frame_type: i64, size: i64, frame_max: i64) -> ConnectionFault:
    reason = f"{{frame_too_large,{size},{frame_max - FRAME_OVERHEAD}}}"
    return ConnectionFault(FRAME_ERROR, f"{described(frame_type, b'')}: {reason}")


def unknown_frame(frame_type: i64, payload: bytes) -> ConnectionFault:
    text = f"{described(frame_type, payload)}: unknown_frame"
    return ConnectionFault(FRAME_ERROR, text, blames_method=False)


def described(frame_type: i64, payload: bytes) -> str:
    """A frame in an error text: its type and the first octets of its payload, in RabbitMQ's format."""
    which = "all octets" if len(payload) <= 16 else "first 16 octets"
    head = payload[:16]
    printable = len(head) > 0 and all(32 <= octet < 127 for octet in head)
    shown = f'"{head.decode("ascii")}"' if printable else ",".join([str(octet) for octet in head])
    return f"type {frame_type}, {which} = <<{shown}>>"


def write_ack(out: BytesWriter, channel: i64, method: i64, tag: i64, bits: i64) -> None:
    """Write a basic.ack (80) or basic.nack (120) frame: the broker's confirms, the client's acks."""
    out.append(1)
    write_channel(out, channel)
    write_i32_be(out, 13)
    write_i32_be(out, i32(60 << 16 | method))
    write_i64_be(out, tag)
    out.append(int(bits))
    out.append(0xCE)


def write_on_channel(out: BytesWriter, content: bytes, channel: i64) -> None:
    """Write header and body frames that have another channel number."""
    start: i64 = len(out)
    out.write(content)
    at: i64 = 0
    size: i64 = len(content)
    while at < size:
        out[start + at + 1] = u8(channel >> 8)
        out[start + at + 2] = u8(channel & 0xFF)
        at += ((read_i64_be(content, at) >> 8) & 0xFFFFFFFF) + FRAME_OVERHEAD


def reframe(content: bytes, channel: i64, frame_max: i64) -> bytes:
    """The same content with body frames of at most `frame_max`, for a peer with a smaller frame_max."""
    header_size = int.from_bytes(content[3:7], "big")
    parts: list[bytes] = []
    at = header_size + 8
    while at < len(content):
        size = int.from_bytes(content[at + 3 : at + 7], "big")
        parts.append(content[at + 7 : at + 7 + size])
        at += size + 8
    return content_frames(content[7 : 7 + header_size], b"".join(parts), channel, frame_max)


def content_frames(header_payload: bytes, body: bytes, channel: i64, frame_max: i64) -> bytes:
    """Header frame and body frames for a header payload and a body."""
    out = BytesWriter()
    write_frame(out, HEADER, channel, header_payload)
    step: i64 = frame_max - FRAME_OVERHEAD
    if len(body) <= step:
        if body:
            write_frame(out, BODY, channel, body)
        return out.getvalue()
    # a large body is copied once, by the join
    parts: list[bytes | memoryview] = [out.getvalue()]
    whole = memoryview(body)
    at: i64 = 0
    while at < len(body):
        part = whole[at : at + step]
        head = BytesWriter()
        head.append(int(BODY))
        write_channel(head, channel)
        write_i32_be(head, i32(len(part)))
        parts.append(head.getvalue())
        parts.append(part)
        parts.append(b"\xce")
        at += step
    return b"".join(parts)


def write_frame(out: BytesWriter, frame_type: i64, channel: i64, payload: bytes) -> None:
    out.append(int(frame_type))
    write_channel(out, channel)
    write_i32_be(out, i32(len(payload)))
    out.write(payload)
    out.append(0xCE)


def write_channel(out: BytesWriter, channel: i64) -> None:
    """Write a channel number: it is unsigned, `write_i16_be` takes a signed integer."""
    write_i16_be(out, i16(channel - 0x10000 if channel > 0x7FFF else channel))
