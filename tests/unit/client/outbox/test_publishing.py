"""What becomes of rows, by what a transport says of them."""

import asyncio

import pytest

from tests.unit.client.outbox.rows import row
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import (
    CallTimeout,
    CannotConnect,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
    PublishFailed,
)
from warren.client.outbox.publishing import Judged, PendingRow, Publisher, Verdict, outgoing
from warren.client.transport import Outgoing

SENT, REFUSED, UNDECIDED = Verdict.SENT, Verdict.REFUSED, Verdict.UNDECIDED


def judged_by(transport: ScriptedTransport, rows: list[PendingRow]) -> list[Judged]:
    return asyncio.run(Publisher(transport, 1.0).publish(rows))


def verdicts(judged: list[Judged]) -> list[Verdict]:
    return [each.verdict for each in judged]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, SENT),
        (PublishFailed([], []), REFUSED),
        (ChannelClosed("no exchange 'shop'", 404), REFUSED),
        (ChannelClosed("closed by us"), UNDECIDED),
        (CallTimeout("no confirm in time"), UNDECIDED),
        (ConnectionLost("gone"), UNDECIDED),
        (ConnectionClosed("closed by us"), UNDECIDED),
        (CannotConnect([("broker:5672", "connection refused")]), UNDECIDED),
        (LoginRefused("no such user"), UNDECIDED),
    ],
)
def test_the_row_is_blamed_for_what_it_is_and_not_for_what_befell_it(
    answer: ClientError | None, verdict: Verdict
) -> None:
    transport = ScriptedTransport(lambda message: answer)
    assert verdicts(judged_by(transport, [row(1)])) == [verdict]


def no_exchange(message: Outgoing) -> ClientError:
    return ChannelClosed("no exchange 'shop'", 404)


def test_who_was_in_bad_company_is_published_again_alone() -> None:
    transport = ScriptedTransport(no_exchange)

    async def after_the_first_call() -> None:
        if len(transport.calls) > 1:
            transport.answer = lambda message: no_exchange(message) if message.message.body == b"2" else None

    transport.meanwhile = after_the_first_call
    assert verdicts(judged_by(transport, [row(1), row(2), row(3)])) == [SENT, REFUSED, SENT]
    assert transport.bodies == [[b"1", b"2", b"3"], [b"1"], [b"2"], [b"3"]]


def test_a_broker_that_answers_no_more_is_not_asked_for_each_row() -> None:
    transport = ScriptedTransport(no_exchange)

    async def after_the_first_call() -> None:
        if len(transport.calls) > 1:
            transport.answer = lambda message: CallTimeout("no confirm in time")

    transport.meanwhile = after_the_first_call
    assert verdicts(judged_by(transport, [row(1), row(2), row(3)])) == [UNDECIDED] * 3
    assert transport.bodies == [[b"1", b"2", b"3"], [b"1"]]


def test_a_row_that_is_no_message_is_refused_and_its_neighbours_are_sent() -> None:
    transport = ScriptedTransport()
    judged = judged_by(transport, [row(1), row(2, properties="nonsense"), row(3)])
    assert verdicts(judged) == [SENT, REFUSED, SENT]
    assert "the row's properties cannot be read" in str(judged[1].trouble)


def test_a_message_has_its_id_its_attempt_and_its_key() -> None:
    properties = outgoing(row(7, "account 1", '{"headers":{"table":4}}', attempt=2)).message.properties
    assert properties is not None
    assert properties.message_id == "id 7"
    assert properties.headers == {"table": 4, "x-attempt": 3, "x-key": "account 1"}


def test_a_message_without_a_key_says_none() -> None:
    properties = outgoing(row(7)).message.properties
    assert properties is not None
    assert properties.headers == {"x-attempt": 1}
