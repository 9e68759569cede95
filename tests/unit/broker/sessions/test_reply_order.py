"""Deliveries that a publish causes, and the reply to a method of the same read."""

import pytest

from tests.support.core_driver import Core, published, spoken
from warren.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicQos,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    ExchangeDelete,
    Method,
    QueueDeclare,
)


@pytest.mark.parametrize(
    "method",
    [
        BasicConsume(queue="other"),
        BasicGet(queue="other"),
        BasicQos(prefetch_count=1),
        ChannelClose(reply_code=200),
        ConfirmSelect(),
        ExchangeDelete(exchange="e"),
        QueueDeclare(queue="other"),
    ],
    ids=lambda method: method.name,
)
def test_a_delivery_goes_out_before_the_reply_to_a_method_behind_the_publish(method: Method) -> None:
    client = Core().client()
    client.declare("q")
    client.declare("other")
    client.declare_exchange("e")
    client.bind("q", "e")
    client.consume("q", no_ack=True)
    client.heard()
    client.read(published("k", b"1", "e") + published("k", b"2", "e") + spoken(method) + published("q", b"3"))
    names = client.names()
    assert names[:2] == ["basic.deliver", "basic.deliver"]
    assert names[2].endswith(("-ok", "-empty"))
    assert names[3:4] == ([] if isinstance(method, ChannelClose) else ["basic.deliver"])


def test_messages_that_are_rejected_one_by_one_return_together() -> None:
    client = Core().client()
    client.declare("q")
    client.publish("q", b"1", b"2", b"3")
    client.consume("q")
    client.heard()
    client.say(*(BasicReject(delivery_tag=tag, requeue=True) for tag in (3, 2, 1)))
    assert client.bodies() == [b"1", b"2", b"3"]
