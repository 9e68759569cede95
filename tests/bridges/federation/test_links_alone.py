"""Links between two brokers: what they declare upstream, what they carry, and what they leave."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.attached_host import AttachedHost, running
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.federation.links import ExchangeLink, QueueLink
from warren.bridges.federation.upstream_topology import internal_exchange_name, link_id
from warren.bridges.federation.upstreams import FederationUpstream
from warren.bridges.supervisor import BridgeWorker
from warren.client import Channel, ChannelClosed, Delivery, Message, Properties, PublishFailed, connect

Unique = Callable[[str], str]
T = TypeVar("T")
DEADLINE_S = 60.0
HERE = "near@localhost"


def run(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        async with asyncio.timeout(DEADLINE_S):
            return await work

    return asyncio.run(within())


@pytest.fixture(params=["warren", "rabbitmq", "rabbitmq with federation"])
def upstream_url(request: pytest.FixtureRequest) -> str:
    if request.param == "warren":
        return url_of(request.getfixturevalue("far"))
    name = "rabbitmq" if request.param == "rabbitmq" else "federating_rabbitmq"
    broker: RabbitMQ = request.getfixturevalue(name)
    return broker.url


def exchange_link(name: str, url: str, **said: Any) -> ExchangeLink:
    upstream = FederationUpstream("up", (url,), name, name, "tag", reconnect_delay_s=0.2, **said)
    return ExchangeLink("/", name, "topic", upstream, HERE)


def queue_link(name: str, url: str, **said: Any) -> QueueLink:
    upstream = FederationUpstream("up", (url,), name, name, "federation-link-up", reconnect_delay_s=0.2, **said)
    return QueueLink("/", name, upstream)


async def delivered(channel: Channel, queue: str, count: int) -> list[Delivery]:
    consumer = await channel.consume(queue, no_ack=True)
    found: list[Delivery] = []
    while len(found) < count:
        found += await consumer.batch()
    await channel.cancel(consumer)
    return found


def last_hop(delivery: Delivery) -> dict[str, object]:
    hops = delivery.headers["x-received-from"]
    assert isinstance(hops, list)
    hop = hops[0]
    assert isinstance(hop, dict)
    return hop


async def has_exchange(url: str, name: str) -> bool:
    async with await connect(url) as connection:
        channel = await connection.channel()
        try:
            await channel.declare_exchange(name, passive=True)
        except ChannelClosed:
            return False
        return True


def test_a_federated_exchange_gets_what_is_published_upstream_and_wanted_here(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            own, far = await here.channel(confirms=True), await there.channel(confirms=True)
            await own.declare_exchange(name, "topic", durable=True)
            await own.declare_queue(name)
            for key in ("a.*", "b"):
                await own.bind_queue(name, name, key)
            host.bind("a.*")
            async with running(host, exchange_link(name, upstream_url)):
                for key in ("a.1", "c", "a.2"):
                    await far.publish(Message(key.encode(), Properties(message_id=key)), name, key)
                first = await delivered(own, name, 2)
                assert [(each.body, each.routing_key, each.exchange) for each in first] == [
                    (b"a.1", "a.1", name),
                    (b"a.2", "a.2", name),
                ]
                hop = last_hop(first[0])
                assert (hop["exchange"], hop["vhost"], hop["redelivered"]) == (name, "/", False)
                assert hop["cluster-name"] == there.server_properties["cluster_name"]
                assert "guest" not in str(hop["uri"])
                host.bind("b")
                await until_routed(far, name, "b")
                [second] = await delivered(own, name, 1)
                assert second.routing_key == "b"
            await own.delete_queue(name)
            await own.delete_exchange(name)
            await exchange_link(name, upstream_url).retire(host, [])
            await far.delete_exchange(name)

    run(scenario())


async def is_routed(channel: Channel, exchange: str, key: str) -> bool:
    """Whether a message with that key, which goes out with this, is taken by anybody."""
    try:
        await channel.publish(b"x", exchange, key, mandatory=True)
    except PublishFailed:
        return False
    return True


async def until_routed(channel: Channel, exchange: str, key: str) -> None:
    while not await is_routed(channel, exchange, key):
        await asyncio.sleep(0.01)


def test_bindings_that_go_here_go_upstream(near: NodeProcess, upstream_url: str, unique: Unique) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            await (await here.channel()).declare_exchange(name, "topic")
            far = await there.channel(confirms=True)
            host.bind("a", "b")
            async with running(host, exchange_link(name, upstream_url)):
                await until_routed(far, name, "a")
                host.bindings = [each for each in host.bindings if each.routing_key == "b"]
                host.change()
                while await is_routed(far, name, "a"):
                    await asyncio.sleep(0.01)
                assert await is_routed(far, name, "b")
            host.bindings = []
            async with running(host, exchange_link(name, upstream_url)):
                assert not await is_routed(far, name, "b")
            await exchange_link(name, upstream_url).retire(host, [])
            await far.delete_exchange(name)

    run(scenario())


def test_what_comes_while_the_link_is_down_is_kept_upstream(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            own, far = await here.channel(), await there.channel(confirms=True)
            await own.declare_exchange(name, "topic")
            await own.declare_queue(name)
            await own.bind_queue(name, name, "a")
            host.bind("a")
            link = exchange_link(name, upstream_url, expires_ms=600_000, message_ttl_ms=600_000)
            for round_no in range(3):
                async with running(host, link):
                    pass
                await far.publish(b"%d" % round_no, name, "a", mandatory=True)
            async with running(host, link):
                assert [each.body for each in await delivered(own, name, 3)] == [b"0", b"1", b"2"]
            queue = f"federation: {name} -> {HERE}"
            exchanges = [internal_exchange_name(queue, link_id(link.key), suffix) for suffix in "AB"]
            assert sorted([await has_exchange(upstream_url, each) for each in exchanges]) == [False, True]
            await link.retire(host, [])
            assert [await has_exchange(upstream_url, each) for each in exchanges] == [False, False]
            with pytest.raises(ChannelClosed):
                await (await there.channel()).declare_queue(queue, passive=True)
            await far.delete_exchange(name)

    run(scenario())


def test_an_exchange_that_upstream_loses_is_declared_anew(
    near: NodeProcess, upstream_url: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.bridges.federation.links.CHECK_EVERY_S", 0.1)
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            await (await here.channel()).declare_exchange(name, "topic")
            far = await there.channel(confirms=True)
            host.bind("a")
            async with running(host, exchange_link(name, upstream_url)):
                await far.delete_exchange(name)
                while not await has_exchange(upstream_url, name):
                    await asyncio.sleep(0.01)
                await until_routed(await there.channel(confirms=True), name, "a")
            reasons = [str(line["reason"]) for line in host.log.of("bridge.broke")]
            assert any("was deleted there" in reason for reason in reasons)
            await exchange_link(name, upstream_url).retire(host, [])

    run(scenario())


def test_a_federated_queue_takes_only_while_somebody_here_wants(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fq")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        host.wants = False
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            own, far = await here.channel(), await there.channel(confirms=True)
            await own.declare_queue(name, durable=True)
            async with running(host, queue_link(name, upstream_url)) as keeper:
                for at in range(5):
                    await far.publish(b"%d" % at, routing_key=name)
                declared = await far.declare_queue(name, durable=True)
                assert (declared.messages, declared.consumers) == (5, 0)
                host.wants = True
                host.change()
                arrived = await delivered(own, name, 5)
                assert [each.body for each in arrived] == [b"0", b"1", b"2", b"3", b"4"]
                headers = arrived[0].headers
                assert (headers["x-original-exchange"], headers["x-original-routing-key"]) == ("", name)
                assert last_hop(arrived[0])["visit-count"] == 1
                host.wants = False
                host.change()
                while (await far.declare_queue(name, durable=True)).consumers:
                    await asyncio.sleep(0.01)
                assert keeper.stats.confirmed == 5
            await own.delete_queue(name)
            await far.delete_queue(name)

    run(scenario())


def test_consumers_upstream_come_before_those_of_a_link(near: NodeProcess, upstream_url: str, unique: Unique) -> None:
    name = unique("fq")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            own, far = await here.channel(), await there.channel(confirms=True)
            await own.declare_queue(name, durable=True)
            async with running(host, queue_link(name, upstream_url)):
                while not (await far.declare_queue(name, durable=True)).consumers:
                    await asyncio.sleep(0.01)
                await far.prefetch(10)
                consumer = await far.consume(name)
                for _ in range(10):
                    await far.publish(b"x", routing_key=name)
                got: list[Delivery] = []
                while len(got) < 10:
                    got += await consumer.batch()
                assert await own.get(name) is None
                await far.publish(b"beyond its prefetch", routing_key=name)
                [spilt] = await delivered(own, name, 1)
                assert spilt.body == b"beyond its prefetch"
            await own.delete_queue(name)
            await far.delete_queue(name)

    run(scenario())


def test_a_queue_upstream_that_was_made_otherwise_is_told_in_a_sentence(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        first = exchange_link(name, upstream_url, expires_ms=60_000)
        async with running(host, first):
            pass
        changed = BridgeWorker(host, exchange_link(name, upstream_url, expires_ms=90_000), lambda done: None)
        changed.start()
        while not changed.reason:
            await asyncio.sleep(0.01)
        await changed.stop()
        queue = f"federation: {name} -> {HERE}"
        said = f"queue {queue!r} of the upstream was made with another expires or message-ttl: set them back"
        assert changed.reason.startswith(said)
        assert "x-expires" in changed.reason
        await first.retire(host, [])
        async with await connect(upstream_url) as there:
            await (await there.channel()).delete_exchange(name)

    run(scenario())
