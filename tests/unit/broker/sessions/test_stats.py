"""Each counter grows when RabbitMQ's does, in all stats concerned, and not otherwise."""

from tests.support.core_driver import Client, Core, published, spoken
from warren.broker.model.stats import ChannelStats, DeliveryStats
from warren.broker.queues.queue import Queue
from warren.broker.routing.exchanges import Exchange
from warren.broker.sessions.connection import Channel
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)

NOTHING = {
    "delivered": 0,
    "delivered_no_ack": 0,
    "got": 0,
    "got_no_ack": 0,
    "got_empty": 0,
    "redelivered": 0,
    "acked": 0,
}


def taken(stats: DeliveryStats, **expected: int) -> None:
    assert {name: getattr(stats, name) for name in NOTHING} == NOTHING | expected


def queue_of(core: Core, name: str = "q") -> Queue:
    queue = core.broker.vhosts["/"].topology.queues[name]
    assert isinstance(queue, Queue)
    return queue


def exchange_of(core: Core, name: str = "") -> Exchange:
    return core.broker.vhosts["/"].topology.exchanges[name]


def channel_of(core: Core, client: Client, number: int = 1) -> Channel:
    return core.broker.connections[client.number].channels[number]


def all_channels(core: Core, client: Client) -> list[ChannelStats]:
    """All stats that count one channel's messages, as long as it is the only one."""
    return [channel_of(core, client).stats, core.broker.vhosts["/"].stats, core.broker.stats]


def with_queue(queue: str = "q") -> tuple[Core, Client]:
    core = Core()
    client = core.client()
    client.declare(queue)
    return core, client


def test_a_publish_counts_for_its_channel_exchange_queue_vhost_and_node() -> None:
    core, client = with_queue()
    client.publish("q", b"1", b"2", b"3")
    assert [stats.published for stats in all_channels(core, client)] == [3, 3, 3]
    assert (exchange_of(core).published_in, exchange_of(core).published_out) == (3, 3)
    assert queue_of(core).stats.published == 3
    assert channel_of(core, client).published_to() == {"": 3}
    assert (core.broker.stats.received, core.broker.stats.routed) == (3, 3)


def test_an_exchange_puts_out_a_copy_for_each_queue() -> None:
    core, client = with_queue()
    client.declare("other")
    client.declare_exchange("x", "fanout")
    client.bind("q", "x")
    client.bind("other", "x")
    client.publish("", b"1", b"2", exchange="x")
    assert (exchange_of(core, "x").published_in, exchange_of(core, "x").published_out) == (2, 4)
    assert core.broker.stats.routed == 4
    assert (queue_of(core).stats.published, queue_of(core, "other").stats.published) == (2, 2)


def test_unroutable_messages_count_as_returned_or_dropped() -> None:
    core, client = with_queue()
    client.read(published("nowhere", b"m", mandatory=True) + published("nowhere", b"m") + published("nowhere", b"m"))
    for stats in all_channels(core, client):
        assert (stats.published, stats.returned_unroutable, stats.dropped_unroutable) == (3, 1, 2)
    assert (exchange_of(core).published_in, exchange_of(core).published_out) == (3, 0)


def test_a_publish_that_is_a_fault_was_only_received() -> None:
    core, client = with_queue()
    client.publish("q", b"m", exchange="no such exchange")
    assert (core.broker.stats.received, core.broker.stats.published) == (1, 0)


def test_confirms_count_acks_but_not_nacks() -> None:
    core, client = with_queue()
    client.declare("full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    client.publish("q", b"before confirm.select")
    client.confirm()
    client.publish("full", b"1", b"2")
    client.publish("q", b"3")
    client.read(published("nowhere", b"4", mandatory=True))
    assert [stats.confirmed for stats in all_channels(core, client)] == [3, 3, 3]
    assert core.broker.stats.received_confirm == 4
    channel = channel_of(core, client)
    assert channel.confirms.unconfirmed() == 0
    assert [counter.confirmed for counter in channel.publish_counters()] == [3]
    # a publish that a queue rejects counts as published to it
    assert queue_of(core, "full").stats.published == 2


def test_a_delivery_counts_by_whether_it_awaits_an_ack() -> None:
    core, client = with_queue()
    client.declare("auto")
    client.consume("q")
    client.consume("auto", tag="a", no_ack=True)
    client.publish("q", b"1", b"2")
    client.publish("auto", b"3")
    taken(queue_of(core).stats, delivered=2)
    taken(queue_of(core, "auto").stats, delivered_no_ack=1)
    for stats in all_channels(core, client):
        taken(stats, delivered=2, delivered_no_ack=1)
    by_queue = channel_of(core, client).taken_from()
    taken(by_queue["q"], delivered=2)
    taken(by_queue["auto"], delivered_no_ack=1)
    assert core.broker.stats.taken == 3


def test_an_ack_of_many_counts_each() -> None:
    core, client = with_queue()
    client.consume("q")
    client.publish("q", *[b"m"] * 5)
    client.say(BasicAck(delivery_tag=4, multiple=True))
    client.say(BasicAck(delivery_tag=5))
    taken(queue_of(core).stats, delivered=5, acked=5)
    for stats in all_channels(core, client):
        taken(stats, delivered=5, acked=5)


def test_rejected_messages_do_not_count_as_acked_and_requeued_ones_count_as_redelivered() -> None:
    core, client = with_queue()
    client.consume("q")
    client.publish("q", b"1", b"2")
    client.say(BasicNack(delivery_tag=1, requeue=True))
    client.say(BasicReject(delivery_tag=2, requeue=False))
    taken(queue_of(core).stats, delivered=3, redelivered=1)
    for stats in all_channels(core, client):
        taken(stats, delivered=3, redelivered=1)


def test_gets_count_apart_from_deliveries() -> None:
    core, client = with_queue()
    client.publish("q", b"1", b"2")
    client.say(BasicGet(queue="q", no_ack=True))
    client.say(BasicGet(queue="q", no_ack=False))
    client.say(BasicGet(queue="q", no_ack=True))
    client.say(BasicNack(delivery_tag=2, requeue=True))
    client.say(BasicGet(queue="q", no_ack=False))
    client.say(BasicAck(delivery_tag=3))
    taken(queue_of(core).stats, got=2, got_no_ack=1, got_empty=1, redelivered=1, acked=1)
    for stats in all_channels(core, client):
        taken(stats, got=2, got_no_ack=1, got_empty=1, redelivered=1, acked=1)


def test_a_transaction_counts_when_it_is_committed() -> None:
    core, client = with_queue()
    client.publish("q", b"0")
    client.say(TxSelect())
    client.publish("q", b"1")
    client.say(BasicGet(queue="q"))
    client.say(BasicAck(delivery_tag=1))
    assert (queue_of(core).stats.published, queue_of(core).stats.acked) == (1, 0)
    client.say(TxCommit())
    assert (queue_of(core).stats.published, queue_of(core).stats.acked) == (2, 1)
    client.publish("q", b"2")
    client.say(TxRollback())
    assert core.broker.stats.published == 2
    assert (core.broker.stats.received, core.broker.stats.received_confirm) == (3, 2)


def test_stats_of_a_vhost_and_a_node_outlive_the_channel() -> None:
    core, client = with_queue()
    client.publish("q", b"1")
    client.consume("q")
    client.say(ChannelClose(reply_code=200, reply_text="", blamed_class_id=0, blamed_method_id=0))
    for stats in (core.broker.vhosts["/"].stats, core.broker.stats):
        assert stats.published == 1
        taken(stats, delivered=1)
    taken(queue_of(core).stats, delivered=1)


def test_another_channel_with_the_same_number_counts_for_itself() -> None:
    core, client = with_queue()
    client.publish("q", b"1")
    client.say(ChannelClose(reply_code=200, reply_text="", blamed_class_id=0, blamed_method_id=0), ChannelOpen())
    client.publish("q", b"2")
    channel = channel_of(core, client)
    assert (channel.stats.published, channel.published_to()) == (1, {"": 1})
    assert exchange_of(core).published_in == 2


def test_dead_letters_count_by_reason_and_not_as_publishes() -> None:
    core, client = with_queue("dead")
    to_dead: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("short", {"x-max-length": 1, **to_dead})
    client.declare("brief", {"x-message-ttl": 10, **to_dead})
    client.declare("plain")
    client.publish("short", b"1", b"2", b"3")
    client.publish("brief", b"4")
    core.pass_ms(20)
    client.publish("plain", b"5")
    client.say(BasicGet(queue="plain"), BasicReject(delivery_tag=1, requeue=False))
    client.say(BasicGet(queue="short"), BasicReject(delivery_tag=2, requeue=False))
    stats = core.broker.stats
    lettered, dropped = stats.dead_lettered, stats.dead_dropped
    assert (lettered.maxlen, lettered.expired, lettered.rejected, lettered.delivery_limit) == (2, 1, 1, 0)
    assert (dropped.maxlen, dropped.expired, dropped.rejected, dropped.delivery_limit) == (0, 0, 1, 0)
    assert queue_of(core, "dead").ready_count() == 4
    assert queue_of(core, "dead").stats.published == 0
    assert stats.routed == 5


def test_queues_that_are_declared_created_and_deleted() -> None:
    core, client = with_queue()
    client.say(QueueDeclare(queue="q"))
    client.say(QueueDeclare(queue="q", passive=True))
    client.say(QueueDeclare(queue="own", exclusive=True))
    client.say(QueueDelete(queue="q"))
    client.say(QueueDelete(queue="q"))
    stats = core.broker.stats
    assert (stats.queues_declared, stats.queues_created, stats.queues_deleted) == (3, 2, 1)
    client.lose()
    assert stats.queues_deleted == 2


def test_connections_and_channels_that_come_and_go() -> None:
    core = Core()
    stats = core.broker.stats
    client = core.client(channels=2)
    core.connect().lose()
    # a socket without input is not counted as opened, but as closed
    assert (stats.connections_created, stats.connections_closed) == (1, 1)
    client.say(ChannelClose(reply_code=200, reply_text="", blamed_class_id=0, blamed_method_id=0), channel=2)
    assert (stats.channels_created, stats.channels_closed) == (2, 1)
    client.lose()
    assert (stats.connections_closed, stats.channels_closed) == (2, 2)


def test_octets_count_for_connection_vhost_and_node() -> None:
    core, client = with_queue()
    connection = core.broker.connections[client.number]
    vhost, node = core.broker.vhosts["/"].stats, core.broker.stats
    before = [connection.counters.received_bytes, vhost.received_bytes, node.received_bytes]
    reads, sent = connection.counters.received_reads, client.octets_received
    frames = published("q", b"m") + spoken(BasicGet(queue="q"))
    client.read(frames)
    after = [connection.counters.received_bytes, vhost.received_bytes, node.received_bytes]
    assert [more - less for more, less in zip(after, before, strict=True)] == [len(frames)] * 3
    assert connection.counters.received_reads == reads + 1
    assert connection.counters.sent_bytes == client.octets_received == node.sent_bytes > sent
    assert connection.connected_at_ms == core.now_ms


def test_an_internal_connection_counts_only_publishes_and_deliveries() -> None:
    core = Core()
    outside = core.client()
    outside.declare("q")
    stats = core.broker.stats
    before = (stats.connections_created, stats.channels_created, stats.received_bytes, stats.sent_bytes)
    noted = core.note_names()
    link = core.link()
    link.publish("q", b"m")
    link.lose()
    after = (stats.connections_created, stats.channels_created, stats.received_bytes, stats.sent_bytes)
    assert after == before
    assert (stats.connections_closed, stats.channels_closed, stats.published) == (0, 0, 1)
    assert "connection.opened" not in core.note_names()[len(noted) :]


def test_an_idle_channel_and_queue_know_since_when() -> None:
    core, client = with_queue()
    channel, queue = channel_of(core, client), queue_of(core)
    began_ms = core.now_ms
    core.pass_ms(1000)
    client.publish("q", b"m")
    assert (channel.opened_at_ms, channel.counters.active_at_ms) == (began_ms, began_ms + 1000)
    assert queue.report().used_at_ms == began_ms + 1000
    core.pass_ms(500)
    client.consume("q")
    assert channel.counters.active_at_ms == queue.report().used_at_ms == began_ms + 1500


def test_counters_of_deleted_queues_do_not_pile_up() -> None:
    core, client = with_queue()
    for number in range(200):
        client.say(QueueDeclare(queue=f"q{number}"), BasicGet(queue=f"q{number}"), QueueDelete(queue=f"q{number}"))
    assert len(channel_of(core, client).counters.taken_from) < 50
    assert channel_of(core, client).stats.got_empty == 200
