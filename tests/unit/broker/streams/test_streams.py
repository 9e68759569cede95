"""Streams of a node: declared, governed by policies and deleted like other queues; in memory without a disk."""

import pytest

from tests.support.core_driver import Client, Core
from tests.unit.broker.streams.stage import PretendArchive
from warren.broker.commands.requests import ClearPolicy, SetPolicy
from warren.broker.model.archive import ArchiveFiles
from warren.broker.model.effects import DropArchive
from warren.broker.model.turn import Turn
from warren.broker.policies.policies import Policy
from warren.broker.streams.files import StreamFiles
from warren.broker.streams.stream import Stream
from warren.wire.methods import BasicAck, BasicConsume, BasicDeliver, BasicQos, ChannelClose, QueueDelete

STREAM = {"x-queue-type": "stream"}


def stream_of(core: Core, name: str = "s", vhost: str = "/") -> Stream:
    stream = core.broker.vhosts[vhost].own_queue(name)
    assert isinstance(stream, Stream)
    return stream


def client_with(core: Core, arguments: dict[str, object] | None = None) -> Client:
    client = core.client()
    client.declare("s", {**STREAM, **(arguments or {})}, durable=True)
    return client


def read_from(client: Client, offset: object) -> list[bytes]:
    client.say(BasicQos(prefetch_count=10_000))
    client.say(BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": offset}))
    client.core.settle()
    return [heard.body for heard in client.heard() if isinstance(heard.method, BasicDeliver)]


def test_a_stream_of_a_node_without_a_disk_is_read_again_and_again() -> None:
    core = Core()
    client = client_with(core)
    client.publish("s", *[b"%d" % number for number in range(10)])
    core.settle()
    assert read_from(core.client(), "first") == [b"%d" % number for number in range(10)]
    assert read_from(core.client(), 8) == [b"8", b"9"]


def test_chunks_in_memory_are_read_again_and_again() -> None:
    core = Core()
    client = client_with(core)
    bodies = [bytes([number]) * 100_000 for number in range(40)]
    for body in bodies:
        client.publish("s", body)
        core.settle()
    assert stream_of(core).disk_bytes() > 3_000_000
    assert core.held_bytes() < 2_500_000
    reader = core.client()
    got = read_from(reader, "first")
    for _ in range(100):
        reader.say(BasicAck(0, multiple=True))
        core.settle()
        got += [heard.body for heard in reader.heard() if isinstance(heard.method, BasicDeliver)]
    assert got == bodies


def test_a_policy_counts_at_once_and_as_long_as_it_is_there() -> None:
    core = Core()
    client = client_with(core, {"x-stream-max-segment-size-bytes": 1_000_000})
    for number in range(60):
        client.publish("s", bytes([number]) * 100_000)
        core.settle()
    assert stream_of(core).segment_count() > 3
    core.command(SetPolicy(Policy("/", "small", "^s$", "queues", {"max-length-bytes": 2_500_000}, 0), False))
    stream = stream_of(core)
    assert (stream.policy, stream.settings.bytes_max, stream.segment_count() <= 3) == ("small", 2_500_000, True)
    assert stream.first_offset() > 0
    core.command(ClearPolicy("/", "small", False))
    assert stream.settings.bytes_max == -1


def test_a_deleted_stream_leaves_nothing_in_memory() -> None:
    core = Core()
    client = client_with(core)
    client.publish("s", bytes(1000))
    core.settle()
    assert core.held_bytes() > 1000
    client.say(QueueDelete(queue="s"))
    core.settle()
    assert (core.held_bytes(), core.broker.vhosts["/"].own_queues()) == (0, [])


def test_streams_go_with_their_virtual_host() -> None:
    core = Core()
    client = client_with(core)
    client.publish("s", bytes(1000))
    reader = core.client()
    read_from(reader, "first")
    core.broker.vhosts["/"].dismantle()
    core.turn()
    core.settle()
    assert (core.held_bytes(), core.broker.vhosts["/"].own_queues()) == (0, [])
    assert "basic.cancel" in reader.names()


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("x-stream-chunks", "true", "not a boolean"),
        ("x-stream-probe", 1, "not a boolean"),
        ("x-stream-bodies", "false", "not a boolean"),
        ("x-stream-match-unfiltered", 0, "not a boolean"),
        ("x-stream-filter", 5, "neither a string nor a list of strings"),
        ("x-stream-filter", ["de", 5], "neither a string nor a list of strings"),
        ("x-stream-filter", {"de": True}, "neither a string nor a list of strings"),
        ("x-stream-group", 5, "not a string"),
        ("x-stream-member", True, "not a string"),
        ("x-stream-consumer-name", ["n"], "not a string"),
    ],
)
@pytest.mark.parametrize("partitions", [0, 2])
def test_arguments_of_the_wrong_type_are_refused(argument: str, value: object, reason: str, partitions: int) -> None:
    core = Core()
    client = client_with(core, {"x-stream-partitions": partitions} if partitions else None)
    client.say(BasicQos(prefetch_count=10))
    client.names()
    client.say(BasicConsume(queue="s", consumer_tag="c", arguments={argument: value}))
    core.settle()
    (closed,) = [heard.method for heard in client.heard() if isinstance(heard.method, ChannelClose)]
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue 's' in vhost '/': {reason}"
    assert (closed.reply_code, closed.reply_text) == (406, text)


@pytest.mark.parametrize("argument", ["x-stream-probe", "x-stream-chunks"])
def test_another_queue_is_not_taken_for_a_stream(argument: str) -> None:
    core = Core()
    client = core.client()
    client.declare("q")
    client.publish("q", b"mine")
    client.say(BasicQos(prefetch_count=1))
    client.names()
    client.say(BasicConsume(queue="q", consumer_tag="c", arguments={argument: True}))
    core.settle()
    (closed,) = [heard.method for heard in client.heard()]
    assert isinstance(closed, ChannelClose)
    text = f"invalid arg '{argument}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    assert closed.reply_text == f"PRECONDITION_FAILED - {text}"


class PretendFiles(ArchiveFiles):
    """Files of streams 5 and 7, with the contents of an archive."""

    def __init__(self, archive: PretendArchive) -> None:
        self._archive = archive

    def streams(self) -> list[int]:
        return [5, 7]

    def segments(self, stream_id: int) -> list[int]:
        return sorted(self._archive.segments)

    def size(self, stream_id: int, segment: int) -> int:
        return len(self._archive.segments[segment])

    def read(self, stream_id: int, segment: int, at: int, length: int) -> bytes:
        return self._archive.segments[segment][at : at + length]

    def secure(self, stream_id: int, segment: int) -> None:
        """There is nothing to flush in memory."""


def test_unclaimed_files_are_deleted_unless_their_stream_is_known() -> None:
    turn = Turn()
    files = StreamFiles(turn, True, PretendFiles(PretendArchive()))
    assert files.found(5, 1_000).damage == ""
    files.drop_unclaimed([7])
    assert turn.effects == []
    files.drop_unclaimed([5])
    assert [effect.facts() for effect in turn.effects] == [DropArchive(7, []).facts()]


def test_damage_is_reported_to_the_stream_that_claims_the_files() -> None:
    files = StreamFiles(Turn(), True, PretendFiles(PretendArchive({1: bytes(100), 2: bytes(100)})))
    assert files.found(5, 1_000).damage == "no chunk begins here: segment 1 of the stream at byte 0"
    assert files.found(5, 1_000).damage == ""
