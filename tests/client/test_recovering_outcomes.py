"""The outcome of each publish; one message's failure does not affect another."""

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.recovery import contents, first_seen, kinds, numbered, only, to
from tests.support.deadlines import in_event_loop, run
from warren.client import CannotConvert, ChannelClosed, ClientError, Message, Properties, PublishFailed, recovering
from warren.client.publisher import ChannelPublisher
from warren.client.recovering import RecoveringTransport
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout

ON_EITHER_BROKER = True

Unique = Callable[[str], str]


@in_event_loop
async def test_each_message_of_a_call_learns_its_own_fate(url: str, unique: Unique) -> None:
    queue, full, topic = unique("queue"), unique("full"), unique("topic")
    layout = Layout(
        (ExchangeLayout(topic, "topic"),),
        (QueueLayout(queue), QueueLayout(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})),
        (BindingLayout(topic, queue, "in.*"),),
    )
    async with await recovering.open(url) as transport:
        await transport.declare(layout)
        assert await transport.publish(to(full, b"fills it")) == [None]
        outcomes = await transport.publish(
            [
                Outgoing(Message(b"1"), topic, "in.a"),
                Outgoing(Message(b"2"), topic, "out.a"),
                Outgoing(Message(b"3", routing_key="in.own"), topic, "out.a"),
                Outgoing(Message(b"4"), topic, "out.a", mandatory=False),
                Outgoing(Message(b"5"), "", full),
                Outgoing(Message(b"6"), topic, "k" * 256),
                Outgoing(Message(b"7"), topic, "in.b"),
            ]
        )
        refused = ("PublishFailed", "rejected")
        assert kinds(outcomes) == [None, refused, None, None, refused, ("CannotConvert", "not_sent"), None]
        returned, nacked = outcomes[1], outcomes[4]
        assert isinstance(returned, PublishFailed)
        assert [message.body for message in returned.returned] == [b"2"]
        assert isinstance(nacked, PublishFailed)
        assert len(nacked.refused) == 1
        assert await contents(transport, queue) == [b"1", b"3", b"7"]


@in_event_loop
async def test_fates_are_not_mixed_up_among_tasks_that_publish_at_once(url: str, unique: Unique) -> None:
    queue, nowhere = unique("queue"), unique("nowhere")

    async def publisher(transport: RecoveringTransport, number: int) -> None:
        for each in range(30):
            batch = [
                Outgoing(Message(b"%d" % place), "", nowhere if (place + number + each) % 3 == 0 else queue)
                for place in range(number % 7 + 1)
            ]
            expected = [("PublishFailed", "rejected") if out.routing_key == nowhere else None for out in batch]
            assert kinds(await transport.publish(batch)) == expected

    async with await recovering.open(url, window=50) as transport:
        await transport.declare(only(queue))
        await asyncio.gather(*(publisher(transport, number) for number in range(20)))


@in_event_loop
async def test_a_missing_exchange_fails_its_own_messages_and_no_others(url: str, unique: Unique) -> None:
    queue, missing = unique("queue"), unique("missing")
    async with await recovering.open(url) as transport:
        await transport.declare(only(queue))
        [alone] = await transport.publish([Outgoing(Message(b"x"), missing, "k")])
        assert isinstance(alone, ChannelClosed)
        assert (alone.code, alone.outcome, alone.retriable) == (404, "rejected", False)
        assert missing in str(alone)
        mixed = [out for number in range(50) for out in (*numbered(queue, 1, number), Outgoing(Message(b"x"), missing))]
        calls = await asyncio.gather(transport.publish(mixed), transport.publish(numbered(queue, 50, 50)))
        assert kinds(calls[0])[0::2] == [None] * 50
        assert {type(error) for error in calls[0][1::2]} == {ChannelClosed}
        assert calls[1] == [None] * 50
        assert first_seen(await contents(transport, queue)) == [b"%06d" % number for number in range(100)]


@in_event_loop
async def test_a_message_that_ends_its_channel_is_found_among_many(url: str, queue: str) -> None:
    """A message with the id of another user closes the channel, and the broker does not say which message it was."""
    async with await recovering.open(url) as transport:
        await transport.declare(only(queue))
        batch = numbered(queue, 200)
        batch[130:130] = to(queue, b"poison", properties=Properties(user_id="another-user"))
        outcomes = await transport.publish(batch)
        assert [place for place, error in enumerate(outcomes) if error is not None] == [130]
        assert isinstance(outcomes[130], ChannelClosed)
        assert first_seen(await contents(transport, queue)) == [b"%06d" % number for number in range(200)]
        assert await transport.publish(to(queue, b"afterwards")) == [None]


@in_event_loop
async def test_a_call_of_which_nothing_can_be_encoded_ends(url: str, queue: str) -> None:
    async with await recovering.open(url) as transport:
        outcomes = await transport.publish([Outgoing(Message(b"x"), "", "k" * 256)] * 50)
        assert {type(error) for error in outcomes} == {CannotConvert}
        assert await transport.publish([]) == []


def test_messages_with_values_of_wrong_types_fail_alone(url: str, queue: str) -> None:
    wrong: dict[str, Any] = {
        "message_id": 7,
        "priority": "high",
        "timestamp": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "headers": {1: "name"},
    }
    text: Any = "text"
    number: Any = 7
    mistakes = [Outgoing(Message(b"x"), "", number), Outgoing(text, "", "k"), text]
    # compiled classes refuse such values
    with contextlib.suppress(TypeError):
        mistakes.append(Outgoing(Message(text), "", queue))
    for name, value in wrong.items():
        with contextlib.suppress(TypeError):
            mistakes.append(Outgoing(Message(b"x", Properties(**{name: value})), "", queue))

    async def talk() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(only(queue))
            batch = [out for at, mistake in enumerate(mistakes) for out in (*numbered(queue, 1, at), mistake)]
            outcomes = kinds(await transport.publish(batch, 10))
            assert outcomes == [None, ("CannotConvert", "not_sent")] * len(mistakes)
            for mistake in mistakes:
                assert kinds(await transport.publish([mistake], 10)) == [("CannotConvert", "not_sent")]
            assert await transport.publish(to(queue, b"afterwards"), 10) == [None]
            expected = [b"%06d" % at for at in range(len(mistakes))]
            assert await contents(transport, queue) == [*expected, b"afterwards"]

    run(talk())


@pytest.mark.parametrize("at_once", [True, False])
def test_an_unexpected_error_ends_every_call_and_is_logged(
    url: str, queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at_once: bool
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a defect")

    async def talk() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(only(queue))
            # the writer has nothing to do when this is confirmed
            assert await transport.publish(to(queue, b"first")) == [None]
            monkeypatch.setattr(ChannelPublisher, "is_free", at_once)
            monkeypatch.setattr(ChannelPublisher, "send_bulk_at_once" if at_once else "send_bulk", fails)
            calls = [asyncio.ensure_future(transport.publish(to(queue, b"x"))) for _ in range(3)]
            for outcomes in await asyncio.gather(*calls):
                assert kinds(outcomes) == [("ClientError", "not_sent")]
            assert kinds(await transport.publish(to(queue, b"later"))) == [("ClientError", "not_sent")]
            with pytest.raises(ClientError, match="open another transport"):
                await transport.send(to(queue, b"later"))

    with caplog.at_level(logging.ERROR, "warren.client.recovering"):
        run(talk())
    assert "publishing has ended" in caplog.text
    assert "a defect" in caplog.text
