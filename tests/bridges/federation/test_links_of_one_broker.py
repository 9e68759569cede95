"""Two upstreams that lead to one broker, by one address or two: their links do not disturb each other."""

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
    until_not_routed,
    until_routed,
)
from tests.bridges.queue_pair import Unique, take
from tests.support.deadlines import in_event_loop, until
from tests.support.node_process import NodeProcess
from warren.bridges.federation.upstream_topology import UpstreamTopology, shared_exchange_names

CHECKS = 6
MESSAGES = 50


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[UpstreamTopology]:
    """Each check of a link for the queue and exchange that it needs upstream."""
    looked: list[UpstreamTopology] = []
    check = UpstreamTopology.check

    async def counted(end: UpstreamTopology) -> None:
        await check(end)
        looked.append(end)

    monkeypatch.setattr(UpstreamTopology, "check", counted)
    monkeypatch.setattr("warren.bridges.federation.links.CHECK_EVERY_S", 0.05)
    return looked


@in_event_loop
async def test_two_upstreams_with_different_addresses_of_one_broker_neither_break_each_other_nor_double_messages(
    near: NodeProcess, upstream_url: str, unique: Unique, checks: list[UpstreamTopology]
) -> None:
    name = unique("fx")
    by_name = upstream_url.replace("127.0.0.1", "localhost")
    assert by_name != upstream_url
    host = AttachedHost(url_of(near), HERE)
    host.bind("a")
    one, two = exchange_link(name, upstream_url, "one"), exchange_link(name, by_name, "two")
    async with bound_exchange(url_of(near), upstream_url, name, "a") as (own, far):
        async with running(host, one) as first, running(host, two) as second:
            await until(lambda: sum(checks.count(end) >= CHECKS for end in set(checks)) == 2)
            for at in range(MESSAGES):
                await far.publish(b"%d" % at, name, "a", mandatory=True)
            arrived = await take(own, name, MESSAGES)
            host.bind("b")
            await until_routed(far, name, "b")
            host.bindings = host.bindings[1:]
            host.change()
            await until_not_routed(far, name, "a")
        assert sorted(int(each.body) for each in arrived) == list(range(MESSAGES))
        assert (first.lives, second.lives) == (1, 1)
        assert host.log.of("bridge.broke") == []
        await two.retire(host, [one])
        await one.retire(host, [])
        assert host.log.of("federation.leftovers_kept") == []


@in_event_loop
async def test_deleting_a_link_does_not_disturb_another_link_to_the_same_broker(
    near: NodeProcess, upstream_url: str, unique: Unique, checks: list[UpstreamTopology]
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    host.bind("a")
    going, staying = exchange_link(name, upstream_url, "going"), exchange_link(name, upstream_url, "staying")
    async with bound_exchange(url_of(near), upstream_url, name) as (_, far):
        async with running(host, staying) as keeper:
            async with running(host, going):
                pass
            await going.retire(host, [staying])
            assert await internal_exchanges(upstream_url, going) == []
            assert await is_routed(far, name, "a")
            looked = len(checks)
            await until(lambda: len(checks) >= looked + CHECKS)
            assert keeper.lives == 1
        await staying.retire(host, [])


@in_event_loop
async def test_an_internal_exchange_without_an_id_goes_when_that_of_the_link_has_all_bindings(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    host.bind("a")
    link = exchange_link(name, upstream_url)
    unnamed = shared_exchange_names(f"federation: {name} -> {HERE}")
    async with bound_exchange(url_of(near), upstream_url, name) as (_, far):
        for each in unnamed:
            await far.declare_exchange(each, "fanout", durable=True, internal=True)
        async with running(host, link):
            assert await is_routed(far, name, "a")
            assert [await has_exchange(upstream_url, each) for each in unnamed] == [False, False]
        await link.retire(host, [])
