"""One message that a destination will not have: it is found and named, and costs the others nothing for ever."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost
from tests.bridges.queue_pair import Unique, fill, take
from tests.bridges.relay import Relay
from tests.support.deadlines import run
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.bridge import BridgeRun
from warren.bridges.settlement import MessageRefused, PoisonMessageGuard
from warren.bridges.supervisor import BridgeWorker
from warren.bridges.transfer_options import RewrittenMessage, transfer_properties
from warren.client import (
    Channel,
    ChannelClosed,
    ConnectionClosed,
    ConnectionLost,
    Delivery,
    Message,
    Properties,
    connect,
)
from warren.wire.properties import encode_header_payload


@dataclass(frozen=True)
class Poisoning(Relay):
    """To the destination one message comes as if from another user, which every broker refuses."""

    def _rewrite(self, delivery: Delivery) -> RewrittenMessage:
        outgoing = super()._rewrite(delivery)
        if delivery.body != b"bad":
            return outgoing
        return outgoing._replace(properties=transfer_properties(Properties(message_id="bad", user_id="somebody else")))


@dataclass(frozen=True)
class Stubborn(Relay):
    """Runs the bridge several times; the message is refused each time."""

    async def live(self, life: BridgeRun) -> None:
        life.stats.refused += 1
        if life.stats.refused == 5:
            raise ConnectionLost("the line is cut")
        if life.stats.refused == 7:
            await asyncio.Event().wait()
        raise MessageRefused(f"refused {life.stats.refused}")


async def poisoned(source_url: str, destination_url: str, unique: Unique) -> None:
    host = LoneHost()
    source, goal = unique("source"), unique("destination")
    async with await connect(source_url) as here, await connect(destination_url) as there:
        filling, taking = await here.channel(confirms=True), await there.channel()
        await filling.declare_queue(source, durable=True)
        await taking.declare_queue(goal, durable=True)
        await fill(filling, source, 300)
        await filling.publish(Message(b"bad", Properties(message_id="bad")), routing_key=source)
        await filling.publish(Message(b"behind", Properties(message_id="behind")), routing_key=source)
        keeper = BridgeWorker(host, Poisoning("r", source_url, source, destination_url, goal), lambda keeper: None)
        keeper.start()
        while not keeper.reason.startswith("the destination refuses message 'bad', published to") or keeper.lives < 6:
            await asyncio.sleep(0.005)
        assert f"with routing key '{source}': the broker closed channel 1: 406 PRECONDITION_FAILED" in keeper.reason
        before = {delivery.properties.message_id for delivery in await everything(taking, goal, host)}
        assert before == {f"m{at}" for at in range(300)}
        assert (await filling.declare_queue(source, durable=True)).messages <= 2

        # an operator removes the message, and those behind it are transferred
        await keeper.stop()
        taken = await filling.get(source, no_ack=True)
        assert taken is not None
        assert taken.body == b"bad"
        await keeper_goes_on(host, source_url, destination_url, source, goal, taking)
        await filling.delete_queue(source)
        await taking.delete_queue(goal)


async def everything(taking: Channel, goal: str, host: LoneHost) -> list[Delivery]:
    """The messages that have arrived: none more than twice, and those that came twice were named."""
    arrived = await take(taking, goal, (await taking.declare_queue(goal, durable=True)).messages)
    times = Counter(delivery.properties.message_id for delivery in arrived)
    assert max(times.values()) <= 2
    assert {each for each, count in times.items() if count > 1} <= host.log.doubted_ids()
    return arrived


async def keeper_goes_on(
    host: LoneHost, source_url: str, destination_url: str, source: str, goal: str, taking: Channel
) -> None:
    keeper = BridgeWorker(host, Poisoning("r", source_url, source, destination_url, goal), lambda keeper: None)
    keeper.start()
    assert [delivery.body for delivery in await take(taking, goal, 1)] == [b"behind"]
    await keeper.stop()


def test_messages_in_front_of_a_refused_one_are_not_transferred_again_and_again(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    run(poisoned(url_of(near), url_of(far), unique))


def test_the_same_holds_if_rabbitmq_refuses(near: NodeProcess, rabbitmq: RabbitMQ, unique: Unique) -> None:
    run(poisoned(url_of(near), rabbitmq.url, unique))


def test_the_delay_grows_while_a_message_is_refused_and_not_otherwise() -> None:
    async def scenario() -> list[object]:
        host = LoneHost()
        keeper = BridgeWorker(host, Stubborn("r", "", "", "", "", delay_s=0.001), lambda keeper: None)
        keeper.start()
        while keeper.lives < 7:
            await asyncio.sleep(0.001)
        await keeper.stop()
        return [fields["again_in_s"] for fields in host.log.of("bridge.broke")]

    assert run(scenario()) == [0.001, 0.002, 0.004, 0.008, 0.001, 0.001]


def delivery_of(message_id: str) -> Delivery:
    return Delivery(1, "c", 1, False, b"\0\0", encode_header_payload(Properties(message_id=message_id), 1), b"")


def test_as_many_as_were_on_their_way_are_suspect_until_they_are_decided() -> None:
    poison_guard = PoisonMessageGuard()
    closed = ChannelClosed("closed", 406, "PRECONDITION_FAILED", "basic.publish")
    assert poison_guard.closed(closed, [delivery_of("a"), delivery_of("b"), delivery_of("c")]) is closed
    poison_guard.decided(1)
    assert poison_guard.suspects == 2
    found = poison_guard.closed(closed, [delivery_of("b")])
    assert isinstance(found, MessageRefused)
    assert "message 'b'" in str(found)
    assert poison_guard.suspects == 2
    poison_guard.decided(5)
    assert poison_guard.suspects == 0
    assert "which has no message id" in str(poison_guard.closed(closed, [delivery_of("")]))


def test_no_message_is_suspected_because_a_connection_is_lost() -> None:
    poison_guard = PoisonMessageGuard()
    for error in (ConnectionLost("lost"), ConnectionClosed("it stops", 320, "CONNECTION_FORCED")):
        assert poison_guard.closed(error, [delivery_of("a")]) is error
    assert poison_guard.suspects == 0
