"""The forms of a publish between its first frame and its queues.

`CachedPublish` is the decoded basic.publish frame with its route, `IncomingContent` is content that arrives in several
reads, and `RoutedPublish` is a message whose queues are known.

Not here: how a publish is handled (`broker.sessions.publishes`), content that arrives in one read, which is the
ordinary case (`wire.frames.FrameReader.take_content`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.model.message import Envelope, Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Exchange, Route
from warren.broker.sessions.counters import PublishCounter
from warren.errors import FRAME_ERROR, PRECONDITION_FAILED, UNEXPECTED_FRAME, ChannelFault, ConnectionFault
from warren.wire.frames import FRAME_OVERHEAD
from warren.wire.methods import BasicPublish
from warren.wire.property_scan import PropertyScan

UNROUTED: Final[i64] = -1


@final
class CachedPublish:
    """A decoded basic.publish frame and its route."""

    def __init__(self, method: BasicPublish) -> None:
        self.envelope: Envelope = Envelope(method.exchange, method.routing_key)
        self.mandatory: bool = method.mandatory
        self.exchange: Exchange | None = None
        self.queues: list[QueuePort] = []
        # the topology version of `queues`
        self.version: i64 = UNROUTED
        # `queues` depends only on exchange and routing key, and no queue has copies
        self.fixed: bool = False
        # the route, if it depends only on exchange and routing key and has copies
        self.copied: Route | None = None
        self.counter: PublishCounter | None = None


@final
class RoutedPublish:
    """A publish with its queues. It waits for tx.commit in this form."""

    def __init__(
        self,
        message: Message,
        route: Route,
        mandatory: bool,
        counter: PublishCounter,
    ) -> None:
        self.message = message
        self.route = route
        # the queues of the route; once published, all queues that got the message, copies included
        self.queues: list[QueuePort] = route.queues
        self.delayed: list[Exchange] = route.delayed
        self.mandatory = mandatory
        self.counter = counter


def body_too_large(body_bytes: i64, limit: i64) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"message size {body_bytes} is larger than configured max size {limit}")


@final
class IncomingContent:
    """A publish whose content is incomplete. The bytes received so far count as held by the node."""

    def __init__(self, cached: CachedPublish, message_bytes_max: i64, turn: Turn) -> None:
        self.cached: CachedPublish = cached
        self.has_header: bool = False
        self.body_bytes: i64 = 0
        self.frame_bytes_max: i64 = 0
        self.header_frame: bytes = b""
        self._message_bytes_max: i64 = message_bytes_max
        self._turn: Turn = turn
        self._missing_bytes: i64 = 0
        self._frames: BytesWriter = BytesWriter()

    def add(self, is_header: bool, frame: bytes) -> None:
        if is_header:
            self.add_header(frame)
        else:
            self.add_body(frame)

    def add_header(self, frame: bytes) -> None:
        """Check the announced size here, so that nothing above the limit is ever kept."""
        if self.has_header:
            raise self.interrupted()
        scan = PropertyScan()
        scan.scan(frame, 7, len(frame) - 1)
        if scan.class_id != 60:
            raise ConnectionFault(
                UNEXPECTED_FRAME,
                f"expected content header for class 60, got one for class {scan.class_id} instead",
            )
        if scan.body_bytes > self._message_bytes_max:
            raise body_too_large(scan.body_bytes, self._message_bytes_max)
        self.has_header = True
        self.header_frame = frame
        self.body_bytes = scan.body_bytes
        self._missing_bytes = scan.body_bytes
        self._keep(frame)

    def add_body(self, frame: bytes) -> None:
        if not self.has_header:
            raise self.interrupted()
        size: i64 = len(frame)
        if size == FRAME_OVERHEAD:
            return
        if size - FRAME_OVERHEAD > self._missing_bytes:
            raise ConnectionFault(FRAME_ERROR, "content body is longer than its header announced")
        self._missing_bytes -= size - FRAME_OVERHEAD
        self.frame_bytes_max = max(self.frame_bytes_max, size)
        self._keep(frame)

    def interrupted(self) -> ConnectionFault:
        """The fault for another frame in the place of content."""
        if self.has_header:
            return ConnectionFault(UNEXPECTED_FRAME, "expected content body, got non content body frame instead")
        return ConnectionFault(
            UNEXPECTED_FRAME, "expected content header for class 60, got non content header frame instead"
        )

    def complete(self) -> bool:
        return self.has_header and self._missing_bytes == 0

    def release(self) -> bytes:
        """Header and body frames as one slice; they no longer count as held."""
        self._turn.held_bytes -= len(self._frames)
        frames = self._frames.getvalue()
        self._frames = BytesWriter()
        return frames

    def check(self) -> None:
        """The content has no more bytes than its header announced. If it is complete, it waits for a permission."""
        assert not self.has_header or 0 <= self._missing_bytes <= self.body_bytes, "content is longer than announced"
        assert self.has_header or len(self._frames) == 0, "content has a body, and no header"

    def _keep(self, frame: bytes) -> None:
        self._frames.write(frame)
        self._turn.held_bytes += len(frame)
