"""Links between two brokers: the objects that they declare upstream and leave there, and the messages they transfer."""

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.attached_host import AttachedHost, running
from tests.bridges.federation.link_ends import (
    HERE,
    bound_exchange,
    exchange_link,
    has_exchange,
    internal_exchanges,
    is_routed,
    last_hop,
    own_queue,
    queue_link,
    until_not_routed,
    until_routed,
)
from tests.bridges.queue_pair import Unique, take
from tests.support.deadlines import in_event_loop, until
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.supervisor import BridgeWorker
from warren.client import ChannelClosed, Delivery, Message, Properties, connect


@pytest.fixture(params=["warren", "rabbitmq", "rabbitmq with federation"])
def upstream_url(request: pytest.FixtureRequest) -> str:
    if request.param == "warren":
        return url_of(request.getfixturevalue("far"))
    name = "rabbitmq" if request.param == "rabbitmq" else "federating_rabbitmq"
    broker: RabbitMQ = request.getfixturevalue(name)
    return broker.url


@in_event_loop
async def test_a_federated_exchange_gets_the_messages_published_upstream_that_a_binding_here_matches(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    link = exchange_link(name, upstream_url)
    async with bound_exchange(url_of(near), upstream_url, name, "a.*", "b") as (own, far):
        host.bind("a.*")
        async with running(host, link):
            for key in ("a.1", "c", "a.2"):
                await far.publish(Message(key.encode(), Properties(message_id=key)), name, key)
            first = await take(own, name, 2)
            assert [(each.body, each.routing_key, each.exchange) for each in first] == [
                (b"a.1", "a.1", name),
                (b"a.2", "a.2", name),
            ]
            hop = last_hop(first[0])
            assert (hop["exchange"], hop["vhost"], hop["redelivered"]) == (name, "/", False)
            async with await connect(upstream_url) as there:
                assert hop["cluster-name"] == there.server_properties["cluster_name"]
            assert "guest" not in str(hop["uri"])
            host.bind("b")
            await until_routed(far, name, "b")
            [second] = await take(own, name, 1)
            assert second.routing_key == "b"
        await link.retire(host, [])


@in_event_loop
async def test_a_binding_that_is_removed_here_is_removed_upstream(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    link = exchange_link(name, upstream_url)
    async with bound_exchange(url_of(near), upstream_url, name) as (_, far):
        host.bind("a", "b")
        async with running(host, link):
            await until_routed(far, name, "a")
            host.bindings = [each for each in host.bindings if each.routing_key == "b"]
            host.change()
            await until_not_routed(far, name, "a")
            assert await is_routed(far, name, "b")
        host.bindings = []
        async with running(host, link):
            assert not await is_routed(far, name, "b")
        await link.retire(host, [])


@in_event_loop
async def test_messages_published_while_the_link_is_down_wait_upstream(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    link = exchange_link(name, upstream_url, expires_ms=600_000, message_ttl_ms=600_000)
    async with bound_exchange(url_of(near), upstream_url, name, "a") as (own, far):
        host.bind("a")
        for round_no in range(3):
            async with running(host, link):
                pass
            await far.publish(b"%d" % round_no, name, "a", mandatory=True)
        async with running(host, link):
            assert [each.body for each in await take(own, name, 3)] == [b"0", b"1", b"2"]
        assert len(await internal_exchanges(upstream_url, link)) == 1
        await link.retire(host, [])
        assert await internal_exchanges(upstream_url, link) == []
        with pytest.raises(ChannelClosed):
            await far.declare_queue(f"federation: {name} -> {HERE}", passive=True)


@in_event_loop
async def test_an_exchange_that_is_deleted_upstream_is_declared_again(
    near: NodeProcess, upstream_url: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.bridges.federation.links.CHECK_EVERY_S", 0.1)
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    link = exchange_link(name, upstream_url)
    async with bound_exchange(url_of(near), upstream_url, name) as (_, far):
        host.bind("a")
        async with running(host, link):
            await far.delete_exchange(name)
            await until(lambda: has_exchange(upstream_url, name))
            async with await connect(upstream_url) as there:
                await until_routed(await there.channel(confirms=True), name, "a")
        reasons = [str(line["reason"]) for line in host.log.of("bridge.broke")]
        assert any("was deleted there" in reason for reason in reasons)
        await link.retire(host, [])


@in_event_loop
async def test_a_federated_queue_takes_messages_only_while_a_consumer_here_waits(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fq")
    host = AttachedHost(url_of(near), HERE)
    host.wants = False
    link = queue_link(name, upstream_url)
    async with own_queue(url_of(near), upstream_url, name) as (own, far), running(host, link) as keeper:
        for at in range(5):
            await far.publish(b"%d" % at, routing_key=name)
        declared = await far.declare_queue(name, durable=True)
        assert (declared.messages, declared.consumers) == (5, 0)
        host.wants = True
        host.change()
        arrived = await take(own, name, 5)
        assert [each.body for each in arrived] == [b"0", b"1", b"2", b"3", b"4"]
        headers = arrived[0].headers
        assert (headers["x-original-exchange"], headers["x-original-routing-key"]) == ("", name)
        assert last_hop(arrived[0])["visit-count"] == 1
        host.wants = False
        host.change()

        async def is_unused() -> bool:
            return (await far.declare_queue(name, durable=True)).consumers == 0

        await until(is_unused)
        assert keeper.stats.confirmed == 5


@in_event_loop
async def test_consumers_upstream_come_before_those_of_a_link(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fq")
    host = AttachedHost(url_of(near), HERE)
    link = queue_link(name, upstream_url)
    async with own_queue(url_of(near), upstream_url, name) as (own, far), running(host, link):

        async def is_consumed() -> bool:
            return (await far.declare_queue(name, durable=True)).consumers > 0

        await until(is_consumed)
        await far.prefetch(10)
        consumer = await far.consume(name)
        for _ in range(10):
            await far.publish(b"x", routing_key=name)
        got: list[Delivery] = []
        while len(got) < 10:
            got += await consumer.batch()
        assert await own.get(name) is None
        await far.publish(b"beyond its prefetch", routing_key=name)
        [spilt] = await take(own, name, 1)
        assert spilt.body == b"beyond its prefetch"


@in_event_loop
async def test_a_queue_upstream_with_other_arguments_gives_the_link_a_reason_for_operators(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    first = exchange_link(name, upstream_url, expires_ms=60_000)
    async with running(host, first):
        pass
    changed = BridgeWorker(host, exchange_link(name, upstream_url, expires_ms=90_000), lambda done: None)
    changed.start()
    await until(lambda: changed.reason)
    await changed.stop()
    queue = f"federation: {name} -> {HERE}"
    said = f"queue {queue!r} of the upstream was made with another expires or message-ttl: set them back"
    assert changed.reason.startswith(said)
    assert "x-expires" in changed.reason
    await first.retire(host, [])
    async with await connect(upstream_url) as there:
        await (await there.channel()).delete_exchange(name)
