"""Bugs to plant between a node and its world: each changes one thing, once.

They change a node's input and output, so that they work with the compiled core, too. A node's output is whole frames,
and so is its input in a calm world.

Not here: bugs between a node and its disk (`disk_plants`), which rule must catch which (`test_planted_bugs`).
"""

from collections.abc import Callable

from warren.broker.model.effects import Effect, SendBytes
from warren.broker.model.events import BytesReceived, Event, WritesPaused
from warren.sim.process import Interceptor
from warren.wire.frames import FRAME_OVERHEAD
from warren.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    Method,
    decode_method,
    encode_method,
)

Part = tuple[Method | None, bytes]
"""A method with its content frames, and all their bytes; or a frame that is no method."""

RewriteParts = Callable[[list[Part]], list[Part] | None]
"""The replacement; None leaves the method unchanged."""


def parts_of(data: bytes) -> list[Part]:
    parts: list[Part] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 3 : at + 7], "big") + int(FRAME_OVERHEAD)
        frame = data[at : at + size]
        at += size
        if frame[0] == 1:
            parts.append((decode_method(frame, 7, len(frame) - 1), frame))
        elif frame[0] in (2, 3):
            method, earlier = parts[-1]
            parts[-1] = (method, earlier + frame)
        else:
            parts.append((None, frame))
    return parts


class OutputPlant(Interceptor):
    """Rewrites one turn's output to one connection, the first time there is something to rewrite."""

    def __init__(self, rewrite: RewriteParts, after: int = 3) -> None:
        self._rewrite = rewrite
        # wait until the world has some traffic
        self._after = after
        self.planted = False

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return [self._intercepted(effect) if isinstance(effect, SendBytes) else effect for effect in effects]

    def _intercepted(self, effect: SendBytes) -> SendBytes:
        if self.planted:
            return effect
        rewritten = self._rewrite(parts_of(effect.data))
        if rewritten is None:
            return effect
        self._after -= 1
        if self._after > 0:
            return effect
        self.planted = True
        return SendBytes(effect.connection_id, b"".join(data for _method, data in rewritten))


class InputPlant(Interceptor):
    """Rewrites one read of a client's socket, or every one."""

    def __init__(self, rewrite: Callable[[bytes], bytes], always: bool = False) -> None:
        self._rewrite = rewrite
        self._always = always
        self.planted = False

    def events(self, events: list[Event]) -> list[Event]:
        return [self._intercepted(event) if isinstance(event, BytesReceived) else event for event in events]

    def _intercepted(self, event: BytesReceived) -> BytesReceived:
        if self.planted and not self._always:
            return event
        data = self._rewrite(event.data)
        if data != event.data:
            self.planted = True
        return BytesReceived(event.connection_id, data)


class StrayBytes(Interceptor):
    """Sends to a connection that never was."""

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return [*effects, SendBytes(999, b"hello")]


class NeverPaused(Interceptor):
    """The node is not told that a client reads slowly."""

    def events(self, events: list[Event]) -> list[Event]:
        return [event for event in events if not isinstance(event, WritesPaused)]


class Falling(Interceptor):
    """The core raises an exception."""

    def events(self, events: list[Event]) -> list[Event]:
        raise ZeroDivisionError


# -- rewriting output


def without_first(kind: type[Method]) -> RewriteParts:
    def rewrite(parts: list[Part]) -> list[Part] | None:
        found = _first(parts, kind)
        return None if found is None else parts[:found] + parts[found + 1 :]

    return rewrite


def without_last(kind: type[Method]) -> RewriteParts:
    """The last of its kind is missing: no later one of the same turn covers for it."""

    def rewrite(parts: list[Part]) -> list[Part] | None:
        found = _first(parts[::-1], kind)
        return None if found is None else parts[: len(parts) - 1 - found] + parts[len(parts) - found :]

    return rewrite


def first_twice(parts: list[Part]) -> list[Part] | None:
    """A delivery goes out a second time, under the next tag; those after it move up."""
    found = _first(parts, BasicDeliver)
    if found is None:
        return None
    again = [parts[found], *parts[found:]]
    return parts[:found] + [_retagged(part, moved=index > 0) for index, part in enumerate(again)]


def two_swapped(parts: list[Part]) -> list[Part] | None:
    """Two deliveries of one consumer change their contents."""
    places = [index for index, (method, _data) in enumerate(parts) if isinstance(method, BasicDeliver)]
    if len(places) < 2:
        return None
    one, other = places[0], places[1]
    if _consumer(parts[one]) != _consumer(parts[other]):
        return None
    swapped = list(parts)
    swapped[one], swapped[other] = (
        _with_content_of(parts[one], parts[other]),
        _with_content_of(parts[other], parts[one]),
    )
    return swapped


def mark_cleared(parts: list[Part]) -> list[Part] | None:
    """A redelivery passes for a first delivery."""
    for index, (method, data) in enumerate(parts):
        if isinstance(method, BasicDeliver) and method.redelivered:
            method.redelivered = False
            return [*parts[:index], (method, _rewritten(method, data)), *parts[index + 1 :]]
    return None


def mark_set(parts: list[Part]) -> list[Part] | None:
    """A first delivery passes for a redelivery."""
    for index, (method, data) in enumerate(parts):
        if isinstance(method, BasicDeliver) and not method.redelivered:
            method.redelivered = True
            return [*parts[:index], (method, _rewritten(method, data)), *parts[index + 1 :]]
    return None


def body_changed(parts: list[Part]) -> list[Part] | None:
    found = _first(parts, BasicDeliver)
    if found is None:
        return None
    method, data = parts[found]
    return [*parts[:found], (method, data[:-2] + b"!" + data[-1:]), *parts[found + 1 :]]


def one_confirm_too_many(parts: list[Part]) -> list[Part] | None:
    found = _first(parts, BasicAck)
    if found is None:
        return None
    method, data = parts[found]
    assert isinstance(method, BasicAck)
    method.delivery_tag += 1
    method.multiple = True
    return [*parts[:found], (method, _rewritten(method, data)), *parts[found + 1 :]]


def one_more_after_close(parts: list[Part]) -> list[Part] | None:
    """A channel that was closed gets one more confirm."""
    found = _first(parts, ChannelCloseOk)
    if found is None:
        return None
    channel = int.from_bytes(parts[found][1][1:3], "big")
    late = BasicAck(1)
    return [*parts[: found + 1], (late, encode_method(channel, late)), *parts[found + 1 :]]


def frame_end_missing(parts: list[Part]) -> list[Part] | None:
    method, data = parts[0]
    return [(method, data[:-1] + b"\x00"), *parts[1:]]


def closed_for_nothing(parts: list[Part]) -> list[Part] | None:
    found = _first(parts, BasicDeliver)
    if found is None:
        return None
    fault = ChannelClose(reply_code=541, reply_text="INTERNAL_ERROR")
    return [*parts, (fault, encode_method(int.from_bytes(parts[found][1][1:3], "big"), fault))]


# -- rewriting input


def misrouted(data: bytes) -> bytes:
    """A publish for 'plain' is taken in and confirmed, but goes nowhere."""
    sent = encode_method(1, BasicPublish("", "plain"))
    return data.replace(sent, encode_method(1, BasicPublish("", "plaim")), 1)


def larger_prefetch(data: bytes) -> bytes:
    for count in (1, 3, 20):
        for shared in (False, True):
            asked = encode_method(1, BasicQos(prefetch_count=count, global_=shared))
            data = data.replace(asked, encode_method(1, BasicQos(prefetch_count=count + 1, global_=shared)))
    return data


def acks_ignored(data: bytes) -> bytes:
    """Every ack of a first delivery is lost on its way to the queue."""
    return data.replace(encode_method(1, BasicAck(1)), b"")


def delay_hidden(data: bytes) -> bytes:
    """The header has another name; the length in front tells it from `x-delayed-type`."""
    return data.replace(b"\x07x-delay", b"\x07y-delay")


def without_argument(name: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(name, b"y" + name[1:])


# -- the pieces


def _first(parts: list[Part], kind: type[Method]) -> int | None:
    return next((index for index, (method, _data) in enumerate(parts) if isinstance(method, kind)), None)


def _consumer(part: Part) -> str:
    assert isinstance(part[0], BasicDeliver)
    return part[0].consumer_tag


def _method_size(data: bytes) -> int:
    return int.from_bytes(data[3:7], "big") + int(FRAME_OVERHEAD)


def _rewritten(method: Method, data: bytes) -> bytes:
    return encode_method(int.from_bytes(data[1:3], "big"), method) + data[_method_size(data) :]


def _with_content_of(part: Part, other: Part) -> Part:
    method, data = part
    return method, data[: _method_size(data)] + other[1][_method_size(other[1]) :]


def _retagged(part: Part, moved: bool) -> Part:
    method, data = part
    if not moved or not isinstance(method, BasicDeliver):
        return part
    shifted = BasicDeliver(
        method.consumer_tag, method.delivery_tag + 1, method.redelivered, method.exchange, method.routing_key
    )
    return shifted, _rewritten(shifted, data)
