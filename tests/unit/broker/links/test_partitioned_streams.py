"""Consumers of a partitioned stream, one partition of which is here and one there: links are slow, lost, and back."""

from typing import Any

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import Together
from tests.unit.broker.streams.stage import message_of
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.files import MemoryArchive, MemoryLog
from warren.broker.streams.partitioned_stream import PartitionedStream
from warren.broker.streams.settings import StreamSettings
from warren.broker.streams.stream import Stream
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicQos,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.wire.properties import decode_properties

HOMES = ("here", "there")
ARGUMENTS: Table = {"x-queue-type": "stream", "x-stream-partitions": 2}


class World:
    """Nodes `here` and `there`, and the name `s`: `s-0` is here, `s-1` there."""

    def __init__(self) -> None:
        self.nodes = Together(*HOMES)
        self.streams: list[Stream] = []
        for index, home in enumerate(HOMES):
            core = self.nodes[home]
            arguments: Table = {"x-queue-type": "stream", "x-stream-partition-of": "s"}
            made = Stream(
                "/",
                f"s-{index}",
                arguments,
                StreamSettings(),
                core.node.turn,
                MemoryLog(),
                MemoryArchive(),
                ArchiveIndex(),
            )
            core.node.only_vhost.topology.add_queue(made)
            self.nodes.add_proxy(HOMES[1 - index], made, home)
            self.streams.append(made)
        for home in HOMES:
            core = self.nodes[home]
            name = PartitionedStream("/", "s", ARGUMENTS, core.queues, core.node.turn)
            core.node.only_vhost.topology.add_queue(name)

    def fill(self, index: int, count: int) -> None:
        for _ in range(count):
            self.streams[index].publish(message_of(b"m"))
        self.nodes[HOMES[index]].turn()
        self.nodes.settle()

    def client(self, node: str = "here") -> Client:
        client = self.nodes.client(node)
        client.say(BasicQos(prefetch_count=100))
        client.heard()
        return client

    def attend(self, client: Client, **arguments: Any) -> None:
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        client.say(BasicConsume(queue="s", consumer_tag="c", arguments=table))
        self.nodes.settle()

    def counts(self, client: Client) -> tuple[int, int]:
        client.heard()
        client.say(QueueDeclare(queue="s", passive=True))
        self.nodes.settle()
        (answer,) = client.methods()
        assert isinstance(answer, QueueDeclareOk), answer
        return answer.message_count, answer.consumer_count


@pytest.fixture
def world() -> World:
    return World()


def places(client: Client) -> list[tuple[int, int]]:
    """Partition and offset of all deliveries since the last call."""
    found = [one for one in client.heard() if one.method.name == "basic.deliver"]
    headers = [headers_of(one) for one in found]
    return [(one["x-stream-partition"], one["x-stream-offset"]) for one in headers]


def headers_of(heard: ReceivedMethod) -> Table:
    return decode_properties(heard.header, 0, len(heard.header)).headers or {}


def test_consume_ok_comes_before_deliveries(world: World) -> None:
    world.fill(0, 1)
    client = world.client()
    client.say(BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": "first"}))
    assert client.names() == []
    world.nodes.settle()
    assert client.names() == ["basic.consume-ok", "basic.deliver"]


def test_messages_of_local_and_remote_partitions_are_delivered(world: World) -> None:
    world.fill(0, 2)
    world.fill(1, 2)
    client = world.client()
    world.attend(client, x_stream_offset="first")
    assert sorted(places(client)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert world.counts(client) == (4, 1)


def test_a_partition_that_refuses_refuses_all_of_it(world: World) -> None:
    client = world.client()
    world.streams[1].stop("torn")
    world.attend(client)
    (close,) = client.methods()
    assert isinstance(close, ChannelClose)
    assert "'s-1' in vhost '/' is stopped: torn" in close.reply_text
    assert [stream.consumer_count() for stream in world.streams] == [0, 0]


def test_a_partition_whose_home_is_away_is_joined_when_it_is_back(world: World) -> None:
    world.fill(0, 1)
    world.fill(1, 1)
    world.nodes.cut_link("here", "there")
    client = world.client()
    world.attend(client, x_stream_offset="first")
    assert places(client) == [(0, 0)]
    world.nodes.link("here", "there")
    world.nodes.settle()
    assert places(client) == [(1, 0)]


def test_a_partition_consumer_continues_after_its_last_delivery(world: World) -> None:
    client = world.client()
    world.attend(client, x_stream_offset="first")
    world.fill(1, 3)
    assert places(client) == [(1, 0), (1, 1), (1, 2)]
    world.nodes.cut_link("here", "there")
    world.fill(1, 2)
    world.nodes.link("here", "there")
    world.nodes.settle()
    assert places(client) == [(1, 3), (1, 4)]


def test_a_partition_consumer_without_deliveries_starts_at_its_first_offset(world: World) -> None:
    world.fill(1, 2)
    client = world.client()
    world.attend(client)
    assert places(client) == []
    world.nodes.cut_link("here", "there")
    world.fill(1, 2)
    world.nodes.link("here", "there")
    world.nodes.settle()
    assert places(client) == [(1, 2), (1, 3)]


@pytest.mark.parametrize(
    "reader",
    [{"x_stream_offset": "first", "x_stream_consumer_name": "billing"}, {"x_stream_group": "g"}],
    ids=["with a name", "in a group"],
)
def test_after_a_lost_link_a_reader_gets_the_messages_behind_the_last_acked_one(
    world: World, reader: dict[str, str]
) -> None:
    client = world.client()
    world.attend(client, **reader)
    world.fill(1, 3)
    assert places(client) == [(1, 0), (1, 1), (1, 2)]
    client.say(BasicAck(delivery_tag=1))
    world.nodes.settle()
    world.nodes.cut_link("here", "there")
    world.nodes.link("here", "there")
    world.nodes.settle()
    assert places(client) == [(1, 1), (1, 2)]


def test_members_at_different_nodes_share_and_take_over(world: World) -> None:
    first, second = world.client("here"), world.client("there")
    world.attend(first, x_stream_group="g", x_stream_member="a")
    world.attend(second, x_stream_group="g", x_stream_member="b")
    world.fill(0, 2)
    world.fill(1, 2)
    assert (places(first), places(second)) == ([(0, 0), (0, 1)], [(1, 0), (1, 1)])
    second.lose()
    world.nodes.settle()
    assert places(first) == [(1, 0), (1, 1)]


def test_a_consumer_that_is_cancelled_leaves_every_partition(world: World) -> None:
    client = world.client()
    world.attend(client)
    client.heard()
    client.say(BasicCancel(consumer_tag="c"))
    world.nodes.settle()
    assert client.names() == ["basic.cancel-ok"]
    assert [stream.consumer_count() for stream in world.streams] == [0, 0]


def test_a_client_that_goes_before_it_is_answered_leaves_nothing_behind(world: World) -> None:
    client = world.client()
    client.say(BasicConsume(queue="s", consumer_tag="c"))
    client.lose()
    world.nodes.settle()
    assert [stream.consumer_count() for stream in world.streams] == [0, 0]


def test_a_client_that_goes_leaves_every_partition(world: World) -> None:
    client = world.client()
    world.attend(client)
    client.lose()
    world.nodes.settle()
    assert [stream.consumer_count() for stream in world.streams] == [0, 0]


def test_a_partition_that_is_stopped_ends_the_consumer_everywhere(world: World) -> None:
    client = world.client()
    world.attend(client)
    client.heard()
    world.streams[1].stop("torn")
    world.nodes["there"].turn()
    world.nodes.settle()
    assert client.names() == ["basic.cancel"]
    assert world.streams[0].consumer_count() == 0


def test_consumers_of_a_deleted_partitioned_stream_are_cancelled_once(world: World) -> None:
    client = world.client()
    world.attend(client)
    client.heard()
    name = world.nodes["here"].queues["s"]
    assert isinstance(name, PartitionedStream)
    name.close()
    world.streams[1].close()
    world.nodes["here"].turn()
    world.nodes["there"].turn()
    world.nodes.settle()
    assert client.names() == ["basic.cancel"]


def test_counts_do_not_wait_for_a_node_that_is_away(world: World) -> None:
    world.fill(0, 3)
    client = world.client()
    world.nodes.cut_link("here", "there")
    assert world.counts(client) == (3, 0)


def test_a_probe_gets_the_number_of_partitions(world: World) -> None:
    client = world.client()
    world.attend(client, x_stream_probe=True)
    answer, told = client.heard()
    assert (answer.method.name, told.body) == ("basic.consume-ok", b"")
    assert headers_of(told) == {"x-stream-partitions": 2}
