"""Readers of another node's stream get the same messages as its own readers."""

from typing import Any

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import Together
from tests.unit.broker.streams.stage import message_of, numbered
from warren.broker.model.events import WritesPaused, WritesResumed
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.chunk import Chunk
from warren.broker.streams.files import MemoryArchive, MemoryLog
from warren.broker.streams.settings import StreamSettings
from warren.broker.streams.stream import Stream
from warren.wire.methods import BasicAck, BasicConsume, BasicQos, ChannelClose

COUNT = 5_000


@pytest.fixture
def stream(nodes: Together) -> Stream:
    core = nodes["there"]
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    made = Stream("/", "s", arguments, StreamSettings(), core.node.turn, MemoryLog(), MemoryArchive(), ArchiveIndex())
    core.node.only_vhost.topology.add_queue(made)
    nodes.add_proxy("here", made, "there")
    for number in range(COUNT):
        made.publish(message_of(numbered(number)))
    core.turn()
    nodes.settle()
    assert made.end_offset() == COUNT
    return made


def read(nodes: Together, client: Client, **arguments: Any) -> None:
    client.say(BasicQos(prefetch_count=3))
    table = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.say(BasicConsume(queue="s", consumer_tag="c", arguments=table))
    nodes.settle()


def test_chunks_cross_a_link_whole_and_as_many_as_were_asked_for(nodes: Together, stream: Stream) -> None:
    client = nodes.client("here")
    read(nodes, client, x_stream_chunks=True, x_stream_offset="first")
    bodies: list[bytes] = []
    tag = 0
    while len(bodies) < COUNT:
        came = [heard for heard in client.heard() if heard.method.name == "basic.deliver"]
        assert 0 < len(came) <= 3
        for heard in came:
            chunk = Chunk(heard.body)
            bodies += [chunk.body(index) for index in range(int(chunk.head.count))]
        tag += len(came)
        client.say(BasicAck(delivery_tag=tag, multiple=True))
        nodes.settle()
    assert bodies == [numbered(number) for number in range(COUNT)]


def test_a_probe_is_answered_across_a_link(nodes: Together, stream: Stream) -> None:
    client = nodes.client("here")
    read(nodes, client, x_stream_probe=True, x_stream_offset="last")
    (heard,) = [heard for heard in client.heard() if heard.method.name == "basic.deliver"]
    assert heard.body == b""


def test_invalid_arguments_are_refused_across_a_link_too(nodes: Together, stream: Stream) -> None:
    client = nodes.client("here")
    read(nodes, client, x_stream_chunks="true")
    (closed,) = [heard.method for heard in client.heard() if isinstance(heard.method, ChannelClose)]
    assert closed.reply_text.endswith("invalid arg 'x-stream-chunks' for queue 's' in vhost '/': not a boolean")
    assert stream.consumers() == []


def test_progress_is_kept_where_the_stream_is(nodes: Together, stream: Stream) -> None:
    client = nodes.client("here")
    read(nodes, client, x_stream_consumer_name="n", x_stream_offset="stored")
    client.say(BasicAck(delivery_tag=2, multiple=True))
    nodes.settle()
    client.lose()
    nodes.settle()
    assert stream.stored_offsets() == {"n": 1}


def test_a_client_that_does_not_read_holds_back_its_chunks_alone(nodes: Together, stream: Stream) -> None:
    slow, quick = nodes.client("here"), nodes.client("here")
    nodes["here"].turn(WritesPaused(slow.number))
    read(nodes, slow, x_stream_chunks=True, x_stream_offset="first")
    read(nodes, quick, x_stream_chunks=True, x_stream_offset="first")
    assert not [heard for heard in slow.heard() if heard.method.name == "basic.deliver"]
    assert len([heard for heard in quick.heard() if heard.method.name == "basic.deliver"]) == 3
    nodes["here"].turn(WritesResumed(slow.number))
    nodes.settle()
    assert len([heard for heard in slow.heard() if heard.method.name == "basic.deliver"]) == 3
