"""A node as host of bridges: its answers to them, and connections to it without a socket."""

import asyncio

import pytest

from tests.bridges.inner_node import InnerNode
from tests.bridges.lone_host import LoneHost, life_of
from tests.bridges.queue_pair import fill, take, to_queue
from tests.support.deadlines import in_event_loop
from warren.bridges.admin import bridge_components
from warren.bridges.transfer import transfer
from warren.bridges.transfer_options import TransferOptions
from warren.broker.commands.requests import PutUser, SetParameter, SetPermission, SetPolicy
from warren.broker.model.events import StopRequested
from warren.broker.policies.policies import Policy
from warren.broker.sessions.firehose import connection_name
from warren.broker.snapshots import is_client
from warren.client import ChannelClosed, ConnectionClosed, LoginRefused, Message, Properties


@in_event_loop
async def test_the_node_itself_may_do_everything_and_publish_as_any_user() -> None:
    node = InnerNode()
    async with await node.host.connect_here("/", "a bridge", "") as connection:
        channel = await connection.channel(confirms=True)
        await channel.declare_queue("q")
        await channel.publish(Message(b"hello", Properties(user_id="another-user")), routing_key="q")
        [own] = node.core.connections.values()
        assert is_client(own), "operators see it"
        assert connection_name(own).startswith("<inner@test.")
        delivery = await channel.get("q", no_ack=True)
        assert delivery is not None
        assert (delivery.body, delivery.properties.user_id) == (b"hello", "another-user")
    assert not node.core.connections
    assert node.exit_codes == []


@in_event_loop
async def test_a_user_that_a_uri_names_has_that_users_permissions() -> None:
    node = InnerNode()
    await node.order(PutUser("hare", b"", "", []))
    await node.order(SetPermission("hare", "/", ".*", ".*", "^q$"))
    async with await node.host.connect_here("/", "", "hare") as connection:
        channel = await connection.channel(confirms=True)
        await channel.declare_queue("q")
        with pytest.raises(ChannelClosed, match="user_id property set to 'another-user'"):
            await channel.publish(Message(b"", Properties(user_id="another-user")), routing_key="q")
        with pytest.raises(ChannelClosed, match="access to queue 'secret' in vhost '/' refused for user 'hare'"):
            await (await connection.channel()).get("secret")
    with pytest.raises(LoginRefused):
        await node.host.connect_here("/", "", "unknown-user")
    with pytest.raises(ConnectionClosed, match="vhost missing not found"):
        await node.host.connect_here("missing", "", "")


@in_event_loop
async def test_a_bridge_of_an_administrator_keeps_the_user_ids_of_messages() -> None:
    node = InnerNode()
    async with await node.host.connect_here("/", "", "guest") as connection:
        channel = await connection.channel(confirms=True)
        await channel.declare_queue("q")
        await channel.publish(Message(b"", Properties(user_id="another-user")), routing_key="q")
        assert node.core.vhosts["/"].topology.queues["q"].ready_count() == 1


@in_event_loop
async def test_messages_are_carried_between_two_brokers_in_one_process() -> None:
    node, other = InnerNode(), InnerNode()
    here, there = await node.host.connect_here("/", "", ""), await other.host.connect_here("/", "", "")
    filling, taking = await here.channel(confirms=True), await there.channel()
    await filling.declare_queue("source")
    await taking.declare_queue("goal")
    await fill(filling, "source", 10_000)
    await transfer(here, "source", there, to_queue("goal"), TransferOptions(limit=10_000), life_of(LoneHost()))
    arrived = await take(taking, "goal", 10_000)
    assert [each.body for each in arrived] == [b"%d" % at for at in range(10_000)]
    await here.close()
    await there.close()


@in_event_loop
async def test_a_node_that_stops_closes_its_internal_connections_too() -> None:
    node = InnerNode()
    connection = await node.host.connect_here("/", "", "")
    node.turns.add(StopRequested())
    assert "CONNECTION_FORCED" in str(await connection.closed())


@in_event_loop
async def test_a_policy_decides_which_objects_are_federated_and_changes_are_reported() -> None:
    node = InnerNode()
    told = asyncio.Event()
    node.host.on_change(told.set)
    async with await node.host.connect_here("/", "", "") as connection:
        channel = await connection.channel()
        await channel.declare_exchange("fed.e", "topic")
        await channel.declare_queue("fed.q")
        await channel.bind_queue("fed.q", "fed.e", "a.*")
        await told.wait()
        assert node.host.federated() == []
        told.clear()
        definition = {"federation-upstream-set": "all"}
        await node.order(SetPolicy(Policy("/", "fed", "^fed", "all", definition, 0), False))
        await told.wait()
        found = {each.kind: each for each in node.host.federated()}
        assert (found["exchange"].name, found["exchange"].type, found["queue"].name) == ("fed.e", "topic", "fed.q")
        assert {(each.policy_name, each.policy["federation-upstream-set"]) for each in found.values()} == {
            ("fed", "all")
        }
        assert found["queue"].home == "inner@test"
        [binding] = node.host.bindings_of("/", "fed.e")
        assert (binding.routing_key, binding.destination, binding.to_exchange) == ("a.*", "fed.q", False)


@in_event_loop
async def test_a_queue_wants_more_while_a_consumer_of_its_own_waits() -> None:
    node = InnerNode()
    async with await node.host.connect_here("/", "", "") as connection:
        channel = await connection.channel(confirms=True)
        await channel.declare_queue("q")
        told = asyncio.Event()
        node.host.on_change(told.set)

        async def wants(expected: bool) -> None:
            while node.host.wants_more("/", "q") != expected:
                await told.wait()
                told.clear()

        await wants(False)
        await channel.prefetch(1)
        federation = await channel.consume("q", arguments={"x-priority": -1})
        # no change was reported, and none is to be reported
        assert not node.host.wants_more("/", "q")
        await channel.cancel(federation)
        consumer = await channel.consume("q")
        await wants(True)
        await channel.publish(b"one", routing_key="q")
        await wants(False)
        [delivery] = await consumer.batch()
        channel.ack(delivery)
        await wants(True)


@in_event_loop
async def test_a_definition_that_changed_since_it_was_looked_at_is_not_forgotten() -> None:
    node = InnerNode()
    node.core.parameters.components.update(bridge_components())
    shovel = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    await node.order(SetParameter("/", "shovel", "one", shovel))
    [seen] = node.host.parameters("shovel")
    await node.order(SetParameter("/", "shovel", "one", {**shovel, "dest-queue": "c"}))
    await node.host.forget(seen)
    [changed] = node.host.parameters("shovel")
    assert changed.value == {**shovel, "dest-queue": "c"}
    await node.host.forget(changed)
    await node.host.forget(changed)
    assert node.host.parameters("shovel") == []


@in_event_loop
async def test_a_node_alone_is_responsible_for_everything() -> None:
    assert InnerNode().host.responsible_for("shovel///x")
