"""Invalid messages pass through a traced transport as through any other."""

from typing import Literal

import pytest

from tests.client.observed import Observed
from tests.support.deadlines import run, until
from warren.client import ChannelClosed, Message, Properties, PublishFailed
from warren.client.listening import Arrival, Listener
from warren.client.telemetry import in_span
from warren.client.testing import MemoryBroker
from warren.client.testing.transport import MemoryIncoming
from warren.client.transport import Layout, Outgoing, QueueLayout
from warren.errors import FRAME_ERROR, ConnectionFault


@pytest.mark.parametrize("acknowledge", ["auto", "none"])
def test_a_message_with_unreadable_properties_does_not_end_a_listener(
    monkeypatch: pytest.MonkeyPatch, acknowledge: Literal["auto", "none"]
) -> None:
    observed = Observed()
    readable = MemoryIncoming.properties

    def garbled(message: MemoryIncoming) -> Properties:
        if message.body == b"bad":
            raise ConnectionFault(FRAME_ERROR, "the table ends too early")
        return readable.__get__(message)

    monkeypatch.setattr(MemoryIncoming, "properties", property(garbled))
    monkeypatch.setattr(MemoryIncoming, "headers", property(lambda message: garbled(message).headers or {}))
    broker = MemoryBroker()
    handled: list[bytes] = []

    async def handle(message: Arrival[bytes]) -> None:
        assert message.properties is not None
        handled.append(message.body)

    async def scenario() -> None:
        transport = broker.transport()
        await transport.declare(Layout(queues=(QueueLayout("orders"),)))
        messages = [Outgoing(Message(body), routing_key="orders") for body in (b"bad", b"good")]
        assert await transport.publish(messages) == [None, None]
        async with Listener(observed.traced(transport), "orders", in_span(handle), acknowledge=acknowledge):
            await until(lambda: handled == [b"good"])

    run(scenario())
    parked = [message.body for message in broker.ready("orders.parked")] if acknowledge == "auto" else [b"bad"]
    assert (parked, len(broker.ready("orders")), len(broker.unacked("orders"))) == ([b"bad"], 0, 0)
    spans = [each for each in observed.spans.get_finished_spans() if each.name == "process orders"]
    assert len(spans) == 2


def test_each_message_of_a_joint_publish_has_its_outcome() -> None:
    observed = Observed()

    async def scenario() -> None:
        bare = MemoryBroker().transport()
        transport = observed.traced(bare)
        await transport.declare(Layout(queues=(QueueLayout("orders"),)))
        to_orders, to_unbound = (Outgoing(Message(b"tea"), routing_key=key) for key in ("orders", "unbound"))
        await transport.publish_together([to_orders])
        with pytest.raises(PublishFailed):
            await transport.publish_together([to_orders, to_unbound])
        with pytest.raises(ChannelClosed):
            await transport.publish_together([to_orders, Outgoing(Message(b"tea"), "missing")])
        found = await bare.get("orders")
        assert found is not None
        assert "traceparent" in found.headers

    run(scenario())
    assert observed.counted("warren.client.confirmed.messages") == {"": 2}
    assert observed.counted("warren.client.failed.messages") == {"rejected": 3}
    assert (observed.span("publish unbound").attributes or {})["error.type"] == "PublishFailed"
