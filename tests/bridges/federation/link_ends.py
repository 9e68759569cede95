"""Links of federation without a node around them, and the exchanges and routes that they make upstream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.deadlines import until
from warren.bridges.federation.links import ExchangeLink, QueueLink
from warren.bridges.federation.upstream_topology import internal_exchange_name, link_id
from warren.bridges.federation.upstreams import FederationUpstream
from warren.client import Channel, ChannelClosed, Delivery, PublishFailed, connect

HERE = "near@localhost"


def exchange_link(name: str, url: str, upstream: str = "up", **options: Any) -> ExchangeLink:
    definition = FederationUpstream(upstream, (url,), name, name, "tag", reconnect_delay_s=0.2, **options)
    return ExchangeLink("/", name, "topic", definition, HERE)


def queue_link(name: str, url: str, **options: Any) -> QueueLink:
    upstream = FederationUpstream("up", (url,), name, name, "federation-link-up", reconnect_delay_s=0.2, **options)
    return QueueLink("/", name, upstream)


@asynccontextmanager
async def bound_exchange(
    here_url: str, there_url: str, name: str, *keys: str
) -> AsyncIterator[tuple[Channel, Channel]]:
    """An exchange here with a queue of the same name bound to it; a channel here, and one with confirms there."""
    async with await connect(here_url) as here, await connect(there_url) as there:
        own, far = await here.channel(), await there.channel(confirms=True)
        await own.declare_exchange(name, "topic")
        await own.declare_queue(name)
        for key in keys:
            await own.bind_queue(name, name, key)
        yield own, far
        await own.delete_queue(name)
        await own.delete_exchange(name)
        await (await there.channel()).delete_exchange(name)


@asynccontextmanager
async def own_queue(here_url: str, there_url: str, name: str) -> AsyncIterator[tuple[Channel, Channel]]:
    """A durable queue here; a channel here, and one with confirms there."""
    async with await connect(here_url) as here, await connect(there_url) as there:
        own, far = await here.channel(), await there.channel(confirms=True)
        await own.declare_queue(name, durable=True)
        yield own, far
        await own.delete_queue(name)
        await far.delete_queue(name)


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


def internal_exchange_names(link: ExchangeLink) -> list[str]:
    """The two names that the link's exchange upstream has in turn."""
    queue = f"federation: {link.name} -> {HERE}"
    return [internal_exchange_name(queue, link_id(link.key), suffix) for suffix in "AB"]


async def internal_exchanges(url: str, link: ExchangeLink) -> list[str]:
    """Those of a link that are there."""
    return [name for name in internal_exchange_names(link) if await has_exchange(url, name)]


async def is_routed(channel: Channel, exchange: str, key: str) -> bool:
    """Whether a queue takes a message with that key; the message is published to find out."""
    try:
        await channel.publish(b"x", exchange, key, mandatory=True)
    except PublishFailed:
        return False
    return True


async def until_routed(channel: Channel, exchange: str, key: str) -> None:
    await until(lambda: is_routed(channel, exchange, key))


async def until_not_routed(channel: Channel, exchange: str, key: str) -> None:
    async def is_dropped() -> bool:
        return not await is_routed(channel, exchange, key)

    await until(is_dropped)
