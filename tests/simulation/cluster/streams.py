"""Shared parts of scenarios about mirrored streams: writers, readers, and a record of what they saw.

Not here: the cluster (`tests.simulation.cluster.scenario`).
"""

from tests.simulation.cluster.mirrored import in_sync, mastered, masters
from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario, Guest
from warren.broker.streams.chunk import Chunk
from warren.broker.streams.stream import Stream
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.sim.cluster.world import ClusterWorld
from warren.wire.field_tables import Table
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.wire.properties import Properties, decode_properties, encode_header_payload

STREAM: Table = {"x-queue-type": "stream"}


class Book:
    """The message read at each offset, and the confirmed messages. An offset never means two messages."""

    def __init__(self) -> None:
        self.by_offset: dict[int, bytes] = {}
        self.confirmed: set[bytes] = set()

    def read(self, offset: int, body: bytes) -> None:
        assert self.by_offset.setdefault(offset, body) == body, f"offset {offset} means two messages"

    def check_whole(self, first: int = 0) -> None:
        """Offsets have no gap, no message has two, and every confirmed message has one."""
        assert sorted(self.by_offset) == list(range(first, first + len(self.by_offset)))
        assert len(set(self.by_offset.values())) == len(self.by_offset), "a message has two offsets"
        if first == 0:
            assert self.confirmed <= set(self.by_offset.values())


class StreamWriter(Guest):
    """Publishes with confirms, on one node; a body has its writer and its number."""

    def __init__(self, world: ClusterWorld, name: str, node: SimulatedClusterNode, book: Book, queue: str) -> None:
        super().__init__(world, name, node)
        self.book = book
        self.queue = queue
        self.count = 0
        self.refused = 0
        self._unconfirmed: dict[int, bytes] = {}
        self._tag = 0

    def channel_opened(self) -> None:
        self._tag = 0
        self._unconfirmed = {}
        self.send(CHANNEL, ConfirmSelect())

    def write(self, count: int, size: int = 10) -> None:
        for _ in range(count):
            self.count += 1
            self._tag += 1
            body = f"{self.name}-{self.count}".encode().ljust(size, b".")
            self._unconfirmed[self._tag] = body
            header = encode_header_payload(Properties(delivery_mode=2), len(body))
            content = content_frames(header, body, CHANNEL, self.frame_max)
            self.send(CHANNEL, BasicPublish("", self.queue), content=content)

    def done(self) -> bool:
        return not self._unconfirmed

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        method = heard.method
        if isinstance(method, BasicAck | BasicNack):
            first = min(self._unconfirmed) if method.multiple else method.delivery_tag
            for tag in range(first, method.delivery_tag + 1):
                body = self._unconfirmed.pop(tag)
                if isinstance(method, BasicAck):
                    self.book.confirmed.add(body)
                else:
                    self.refused += 1


class StreamReader(Guest):
    """Reads on one node, from a given offset, and acks every delivery."""

    def __init__(
        self, world: ClusterWorld, name: str, node: SimulatedClusterNode, book: Book, queue: str, arguments: Table
    ) -> None:
        super().__init__(world, name, node)
        self.book = book
        self.queue = queue
        self.arguments = arguments
        self.offsets: list[int] = []
        self.attached = False
        self.cancelled = False

    def channel_opened(self) -> None:
        """A reader that was cut off continues where it was."""
        arguments = dict(self.arguments)
        if self.offsets:
            arguments["x-stream-offset"] = self.offsets[-1] + 1
        self.send(CHANNEL, BasicQos(prefetch_count=10))
        self.send(CHANNEL, BasicConsume(self.queue, self.name, arguments=arguments))

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        if isinstance(heard.method, BasicDeliver):
            headers = decode_properties(heard.header, 0, len(heard.header)).headers or {}
            offset = headers["x-stream-offset"]
            assert isinstance(offset, int)
            self.offsets.append(offset)
            self.book.read(offset, heard.body)
            self.send(CHANNEL, BasicAck(heard.method.delivery_tag))
        elif isinstance(heard.method, BasicConsumeOk):
            self.attached = True
        elif isinstance(heard.method, BasicCancel):
            # there was no master for too long: it goes on over a new channel
            self.cancelled = True
            self.close_channel()


class Streams:
    """A scenario with a stream."""

    def __init__(self, scenario: ClusterScenario, queue: str = "log") -> None:
        self.scenario = scenario
        self.queue = queue
        self.book = Book()
        self._serial = 0

    def declare(self, node: SimulatedClusterNode, arguments: Table | None = None) -> None:
        declared = QueueDeclare(self.queue, durable=True, arguments={**STREAM, **(arguments or {})})
        answer = self.scenario.ask(self.scenario.guest(node), declared)
        assert isinstance(answer, QueueDeclareOk)

    def mirror(self, node: SimulatedClusterNode, arguments: Table | None = None) -> None:
        """Declare it on all nodes, and wait until all are in sync; its master is on this node."""
        self.declare(node, {"x-ha-mode": "all", **(arguments or {})})
        all_names = sorted(one.name for one in self.scenario.nodes)
        self.scenario.until(lambda: in_sync(node, self.queue) == all_names)
        assert masters(self.scenario, self.queue) == [node.name]

    def writer(self, node: SimulatedClusterNode) -> StreamWriter:
        writer = StreamWriter(self.scenario.world, self._name("writer"), node, self.book, self.queue)
        self.scenario.until(lambda: writer.channel_open)
        return writer

    def reader(self, node: SimulatedClusterNode, offset: object = "first", **arguments: object) -> StreamReader:
        table: Table = {name.replace("_", "-"): value for name, value in arguments.items()}
        table["x-stream-offset"] = offset
        reader = StreamReader(self.scenario.world, self._name("reader"), node, self.book, self.queue, table)
        self.scenario.until(lambda: reader.attached)
        return reader

    def write(self, writer: StreamWriter, count: int, size: int = 10) -> None:
        """Publish, and wait for all confirms."""
        writer.write(count, size)
        self.scenario.until(writer.done)
        assert writer.refused == 0

    def has_read(self, reader: StreamReader, offsets: range) -> None:
        """Wait until the reader has read these offsets, and check that it has read no others."""
        self.scenario.until(lambda: len(reader.offsets) >= len(offsets))
        assert reader.offsets == list(offsets)

    def stream(self, node: SimulatedClusterNode) -> Stream:
        found = mastered(node, self.queue)
        assert isinstance(found, Stream)
        return found

    def _name(self, kind: str) -> str:
        self._serial += 1
        return f"{kind}{self._serial}"


class ChunkReader(StreamReader):
    """Reads chunks, and continues by their headers."""

    def __init__(self, world: ClusterWorld, name: str, node: SimulatedClusterNode, queue: str) -> None:
        super().__init__(world, name, node, Book(), queue, {"x-stream-offset": "first", "x-stream-chunks": True})
        self.end = 0

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        if isinstance(heard.method, BasicDeliver):
            chunk = Chunk(heard.body)
            first, count = int(chunk.head.first_offset()), int(chunk.head.count)
            assert first <= self.end, "a chunk is left out"
            for index in range(count):
                self.book.read(first + index, chunk.body(index))
            self.end = max(self.end, first + count)
            self.send(CHANNEL, BasicAck(heard.method.delivery_tag))
