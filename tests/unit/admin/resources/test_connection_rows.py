"""Message rates between a channel and one exchange or queue."""

import asyncio

from tests.support.core_driver import published
from tests.unit.admin.history.world import SampledCore
from warren.admin.resources.connection_rows import deliveries_by_channel, publishes_by_channel
from warren.broker.queues.queue import Queue
from warren.wire.methods import BasicGet


def test_channels_are_listed_apart_with_counts_and_rates() -> None:
    core = SampledCore()
    one, other = core.client(), core.client()
    one.declare("q")
    core.sample()
    one.read(b"".join(published("q") for _ in range(30)))
    other.read(published("q"))
    other.say(*[BasicGet(queue="q", no_ack=True)] * 10)
    core.sample()
    topology = core.broker.vhosts["/"].topology
    queue = topology.queues["q"]
    assert isinstance(queue, Queue)
    came = asyncio.run(publishes_by_channel(topology.exchanges[""], "/", core.broker, "node", core.history))
    assert [(way["channel_details"]["peer_port"], way["stats"]) for way in came] == [
        (40_001, {"publish": 30, "publish_details": {"rate": 6.0}}),
        (40_002, {"publish": 1, "publish_details": {"rate": 0.2}}),
    ]
    (went,) = asyncio.run(deliveries_by_channel(queue, core.broker, "node", core.history))
    assert went["channel_details"]["name"] == "127.0.0.1:40002 -> 127.0.0.1:5672 (1)"
    assert went["stats"]["get_no_ack"] == 10
    assert went["stats"]["deliver_get_details"] == {"rate": 2.0}


def test_those_of_another_virtual_host_are_not_looked_at() -> None:
    core = SampledCore()
    client = core.client()
    client.declare("q")
    client.read(published("q"))
    exchange = core.broker.vhosts["/"].topology.exchanges[""]
    assert asyncio.run(publishes_by_channel(exchange, "elsewhere", core.broker, "node", core.history)) == []
