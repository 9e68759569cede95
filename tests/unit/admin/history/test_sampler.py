"""Rates and samples of everything in a node, while clients do things."""

import pytest

from tests.support.core_driver import Client, published
from tests.unit.admin.history.world import SampledCore
from warren.admin.history.counters import NAMES
from warren.admin.history.sampler import STEP_OBJECTS
from warren.admin.history.stats_history import moments_ms
from warren.admin.ports import LinkFacts, SampleSpan
from warren.broker.commands.requests import DeleteVhost, PutVhost, SetPermission
from warren.wire.methods import BasicAck, BasicGet, ChannelClose, ChannelOpen, QueueDelete, QueuePurge

QUEUE = ("/", "q")
LAST_MINUTE = SampleSpan(60, 5)


def publish(client: Client, count: int, key: str = "q") -> None:
    client.read(b"".join(published(key) for _ in range(count)))


def with_queue() -> tuple[SampledCore, Client]:
    core = SampledCore()
    client = core.client()
    client.declare("q")
    return core, client


def test_a_rate_is_the_difference_to_the_last_sample() -> None:
    core, client = with_queue()
    core.sample()
    publish(client, 100)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 20.0
    assert core.rate("queue", QUEUE, "messages_ready") == 20.0
    assert core.rate("queue", QUEUE, "messages") == 20.0
    assert core.rate("channel", (1, 1), "publish") == 20.0
    assert core.rate("exchange", ("/", ""), "publish_in") == 20.0
    assert core.rate("vhost", "/", "publish") == 20.0
    assert core.rate("overview", "", "publish") == 20.0
    assert core.rate("overview", "", "messages") == 20.0
    assert core.rate("connection", 1, "recv_oct") == 20.0 * len(published("q"))


def test_a_late_sample_counts_for_the_time_it_took() -> None:
    core, client = with_queue()
    core.sample()
    publish(client, 100)
    core.sample(late_ms=1000)
    assert core.rate("queue", QUEUE, "publish") == pytest.approx(100 / 6)
    assert core.rate("overview", "", "publish") == pytest.approx(100 / 6)


def test_an_idle_object_has_no_rate() -> None:
    core, client = with_queue()
    publish(client, 100)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 20.0
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 0.0
    assert core.rate("overview", "", "publish") == 0.0


def test_the_counts_of_a_new_object_belong_to_the_last_sample() -> None:
    core = SampledCore()
    core.sample(passes=3)
    client = core.client()
    client.declare("q")
    publish(client, 50)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 10.0
    assert core.samples("queue", QUEUE, "publish", LAST_MINUTE)[:2] == [0, 0]
    core.pass_ms(2500)
    assert core.samples("queue", QUEUE, "publish", LAST_MINUTE)[:3] == [50, 0, 0]


def test_deliveries_are_counted_by_kind_and_in_all() -> None:
    core, client = with_queue()
    publish(client, 30)
    core.sample()
    client.consume("q")
    client.say(BasicAck(delivery_tag=10, multiple=True))
    core.sample()
    assert core.rate("queue", QUEUE, "deliver") == 6.0
    assert core.rate("queue", QUEUE, "deliver_get") == 6.0
    assert core.rate("queue", QUEUE, "ack") == 2.0
    assert core.rate("queue", QUEUE, "messages_ready") == -6.0
    assert core.rate("queue", QUEUE, "messages_unacknowledged") == 4.0
    assert core.rate("queue", QUEUE, "messages") == -2.0
    assert core.rate("channel", (1, 1), "deliver_get") == 6.0


def test_a_length_that_only_shrinks_is_noticed() -> None:
    core, client = with_queue()
    publish(client, 30)
    core.sample()
    client.say(QueuePurge(queue="q"))
    core.sample()
    assert core.rate("queue", QUEUE, "messages_ready") == -6.0


def test_the_parts_of_a_channel_have_rates() -> None:
    core, client = with_queue()
    client.declare("other")
    publish(client, 10)
    publish(client, 10, key="other")
    core.sample()
    client.say(*[BasicGet(queue="q", no_ack=True)] * 5)
    publish(client, 20)
    core.sample()
    assert core.rate("channel_queue", (1, 1, "q"), "get_no_ack") == 1.0
    assert core.rate("channel_queue", (1, 1, "q"), "deliver_get") == 1.0
    assert core.rate("channel_exchange", (1, 1, ""), "publish") == 4.0
    assert core.rate("channel_queue", (1, 1, "other"), "get_no_ack") == 0.0
    core.sample()
    assert core.rate("channel_queue", (1, 1, "q"), "get_no_ack") == 0.0


def test_a_queue_made_anew_starts_from_nothing() -> None:
    core, client = with_queue()
    publish(client, 1000)
    core.sample(passes=2)
    client.say(QueueDelete(queue="q"))
    client.declare("q")
    publish(client, 10)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 2.0
    core.pass_ms(2500)
    assert core.samples("queue", QUEUE, "publish", LAST_MINUTE)[:4] == [10, 0, 0, 0]


def test_samples_of_deleted_objects_are_forgotten() -> None:
    core = SampledCore()
    client = core.client(channels=2)
    client.declare("q", exclusive=True)
    publish(client, 5)
    core.sample()
    kept = core.sampler.samples_bytes
    assert kept > 0
    client.say(ChannelClose(reply_code=200, reply_text=""), channel=2)
    core.sample()
    assert core.sampler.series("channel", (1, 2)) is None
    client.lose()
    core.sample()
    for kind, key in (("queue", QUEUE), ("connection", 1), ("channel", (1, 1))):
        assert core.sampler.series(kind, key) is None
    assert core.sampler.samples_bytes < kept


def test_counts_from_before_the_start_make_no_rate() -> None:
    core, client = with_queue()
    publish(client, 500)
    core.sampler.begin()
    core.sample()
    assert core.rate("queue", QUEUE, "messages_ready") == 0.0
    assert core.rate("overview", "", "publish") == 0.0


def test_a_slot_without_a_pass_repeats_the_one_before() -> None:
    core, client = with_queue()
    publish(client, 10)
    core.sample()
    core.pass_ms(20_000)
    publish(client, 10)
    core.sample()
    core.pass_ms(2500)
    assert core.samples("queue", QUEUE, "publish", LAST_MINUTE)[:7] == [20, 10, 10, 10, 10, 10, 0]


def test_a_slot_is_sampled_once() -> None:
    core, client = with_queue()
    core.sample()
    publish(client, 10)
    assert list(core.sampler.take()) == []
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 2.0


def test_samples_reach_back_an_hour_for_a_queue_and_a_day_for_the_whole() -> None:
    core, client = with_queue()
    published_at_ms = []
    for _ in range(20):
        published_at_ms.append(core.now_ms)
        publish(client, 6)
        core.sample(passes=90)
    core.pass_ms(2500)
    for kind, key, span in (("queue", QUEUE, SampleSpan(3600, 60)), ("overview", "", SampleSpan(86400, 1800))):
        told = core.samples(kind, key, "publish", span)
        moments = moments_ms(span, core.now_ms)
        assert told == [6 * sum(at < moment for at in published_at_ms) for moment in moments]
        assert len(set(told)) >= 5


def test_samples_of_idle_objects_take_no_memory() -> None:
    core, client = with_queue()
    publish(client, 10)
    core.sample(passes=2)
    assert core.sampler.samples_bytes > 0
    core.sample(passes=800)
    assert core.sampler.samples_bytes == 0
    assert core.samples("queue", QUEUE, "publish", LAST_MINUTE) == [10] * 13
    publish(client, 10)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 2.0


def test_without_room_there_are_rates_still() -> None:
    core = SampledCore(samples_bytes_max=0)
    client = core.client()
    client.declare("q")
    for count in (5, 10, 20, 40):
        publish(client, count)
        core.sample()
        assert core.rate("queue", QUEUE, "publish") == count / 5
    assert core.sampler.samples_bytes < 200
    assert core.rate("overview", "", "publish") == 8.0


def test_many_objects_are_looked_at_in_steps() -> None:
    core = SampledCore()
    client = core.client()
    for number in range(2 * STEP_OBJECTS):
        client.declare(f"q{number}")
    core.sample()
    assert core.sample() >= 2
    publish(client, 3, key=f"q{2 * STEP_OBJECTS - 1}")
    core.sample()
    assert core.rate("queue", ("/", f"q{2 * STEP_OBJECTS - 1}"), "publish") == 0.6


def test_a_channel_that_was_opened_and_closed_since_the_last_sample_leaves_rates_alive() -> None:
    core, client = with_queue()
    core.sample()
    client.say(ChannelOpen(), channel=2)
    client.say(QueuePurge("no such queue"), channel=2)
    # the client has not sent its close-ok
    assert core.broker.connections[1].channels[2].closed
    publish(client, 100)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 20.0
    assert core.rate("overview", "", "publish") == 20.0


def test_a_virtual_host_may_be_deleted_while_its_new_queues_are_sampled() -> None:
    core, client = with_queue()
    core.command(PutVhost("short", "", [], None))
    core.command(SetPermission("guest", "short", ".*", ".*", ".*"))
    other = core.client(vhost="short")
    for number in range(2 * STEP_OBJECTS):
        other.declare(f"q{number}")
    publish(client, 100)
    core.pass_ms(5000)
    steps = core.sampler.take()
    # the queue that was known, then the first of the new ones
    next(steps)
    next(steps)
    core.command(DeleteVhost("short"))
    assert list(steps)
    assert core.rate("overview", "", "publish") == 20.0


def test_the_process_is_sampled() -> None:
    core = SampledCore()
    core.io.writes, core.io.write_bytes = 100, 5000
    core.sample()
    assert core.rate("node", core.facts.name, "io_write_bytes") == 1000.0
    memory = core.samples("node", core.facts.name, "mem_used", LAST_MINUTE)
    assert memory[0] > 1_000_000


def test_connections_and_channels_that_come_and_go_are_counted() -> None:
    core = SampledCore()
    core.client(channels=2).lose()
    core.sample()
    assert core.rate("churn", "", "connection_created") == 0.2
    assert core.rate("churn", "", "connection_closed") == 0.2
    assert core.rate("churn", "", "channel_created") == 0.4


def link(own_port: int, sent_bytes: int, received_bytes: int) -> LinkFacts:
    return LinkFacts("warren@other", "127.0.0.1", own_port, "127.0.0.1", 25672, sent_bytes, received_bytes)


def test_the_bytes_of_links_are_sampled_and_a_new_link_starts_from_nothing() -> None:
    core = SampledCore()
    core.links = [link(1, 1000, 50)]
    core.sample()
    core.links = [link(1, 6000, 100)]
    core.sample()
    key = core.links[0].key
    assert (core.rate("link", key, "send_bytes"), core.rate("link", key, "recv_bytes")) == (1000.0, 10.0)
    core.links = [link(2, 500, 0)]
    core.sample()
    assert core.rate("link", core.links[0].key, "send_bytes") == 100.0
    core.sample()
    assert core.samples("link", core.links[0].key, "send_bytes", SampleSpan(10, 5)) == [500, 0, 0]


def test_after_a_reset_there_are_no_samples_and_no_rates() -> None:
    core, client = with_queue()
    core.sample()
    publish(client, 100)
    core.sample()
    core.sampler.begin()
    assert core.rate("queue", QUEUE, "publish") == core.rate("overview", "", "publish") == 0.0
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == 0.0
    assert core.samples("queue", QUEUE, "publish", SampleSpan(10, 5))[0] == 100
    publish(client, 5)
    core.sample()
    assert core.rate("queue", QUEUE, "publish") == core.rate("overview", "", "publish") == 1.0


def test_a_value_that_is_not_sampled_has_a_rate_of_zero() -> None:
    core = SampledCore()
    rated = core.history.rated("queue", QUEUE, {"reductions": 7}, SampleSpan(10, 5))
    assert rated["reductions"] == 7
    assert rated["reductions_details"]["avg"] == 7.0  # type: ignore[index]
    assert core.rate("queue", ("/", "never"), "publish") == 0.0


@pytest.mark.parametrize("kind", ["queue", "exchange", "connection", "channel", "vhost", "overview", "node", "link"])
def test_every_kind_has_as_many_counters_as_names(kind: str) -> None:
    core = SampledCore()
    core.client().declare("q")
    core.links = [link(1, 1, 1)]
    core.sample()
    keys = {
        "queue": QUEUE,
        "exchange": ("/", "amq.topic"),
        "connection": 1,
        "channel": (1, 1),
        "vhost": "/",
        "overview": "",
        "node": core.facts.name,
        "link": core.links[0].key,
    }
    series = core.sampler.series(kind, keys[kind])
    assert series is not None
    assert len(series.last) == len(NAMES[kind])
