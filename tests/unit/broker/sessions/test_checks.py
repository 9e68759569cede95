"""The ledgers of a session notice when they contradict themselves.

Not here: that they do not (`tests/simulation`, which checks them after every turn).
"""

from collections.abc import Callable

import pytest

from tests.support.core_driver import Client, Core, published
from warren.broker.model.turn import Turn
from warren.broker.sessions.connection import Channel
from warren.broker.sessions.output import OutputGate
from warren.wire.methods import BasicConsume, BasicQos, ConfirmSelect, TxSelect


def channel_of(core: Core, client: Client) -> Channel:
    return core.broker.connections[client.number].channels[1]


@pytest.fixture
def channel() -> Channel:
    """A channel that confirms its publishes, and has one of three deliveries unacked."""
    core = Core()
    client = core.client()
    client.declare("q")
    client.say(ConfirmSelect(), BasicQos(prefetch_count=1), BasicConsume(queue="q", consumer_tag="c"))
    client.read(published("q") * 3)
    found = channel_of(core, client)
    assert (found.unacked_deliveries.count, found.confirms.acked) == (1, 3)
    found.check()
    return found


def miscount_acks(channel: Channel) -> None:
    channel.confirms.acked += 1


def lose_a_publish(channel: Channel) -> None:
    channel.confirms._plain = False
    channel.confirms.last_no += 1


def forget_a_pending_range(channel: Channel) -> None:
    channel.confirms._pending.count = 1


def miscount_unacked_of_the_channel(channel: Channel) -> None:
    channel.unacked_deliveries.consumers_unacked = 0


def miscount_unacked_of_a_consumer(channel: Channel) -> None:
    channel.consumers["c"].unacked = 2


@pytest.mark.parametrize(
    "damage",
    [
        miscount_acks,
        lose_a_publish,
        forget_a_pending_range,
        miscount_unacked_of_the_channel,
        miscount_unacked_of_a_consumer,
    ],
)
def test_a_damaged_ledger_is_found_by_the_check(channel: Channel, damage: Callable[[Channel], None]) -> None:
    damage(channel)
    with pytest.raises(AssertionError):
        channel.connection.check()


def test_a_delivery_is_settled_once(channel: Channel) -> None:
    consumer = channel.consumers["c"]
    consumer.settled()
    with pytest.raises(AssertionError):
        consumer.settled()


def test_a_transaction_and_its_ledger_count_a_delivery_together() -> None:
    core = Core()
    client = core.client()
    client.declare("q")
    client.read(published("q"))
    client.say(TxSelect(), BasicConsume(queue="q", consumer_tag="c"))
    channel = channel_of(core, client)
    assert channel.transaction is not None
    channel.transaction.acks.append(channel.unacked_deliveries.take_out_to(0))
    channel.check()
    channel.transaction.acks.append(channel.transaction.acks[0])
    with pytest.raises(AssertionError):
        channel.check()


def test_a_gate_opens_once() -> None:
    gate = OutputGate(Turn())
    gate.shut()
    gate.open_oldest()
    gate.check()
    with pytest.raises(AssertionError):
        gate.open_oldest()
