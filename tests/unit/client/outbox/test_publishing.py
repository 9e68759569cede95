"""The outcome of rows, by the answer of the transport."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.unit.client.outbox.rows import row
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import (
    CallTimeout,
    CannotConnect,
    CannotConvert,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
    PublishFailed,
)
from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishes import ConfirmRange
from warren.client.outbox.publisher import (
    PendingRow,
    PublishedRow,
    RowPublisher,
    RowVerdict,
    has_given_up,
    outgoing_of_row,
)
from warren.wire.field_tables import Timestamp

SENT, REFUSED, PUT_OFF, UNDECIDED = RowVerdict.SENT, RowVerdict.REFUSED, RowVerdict.PUT_OFF, RowVerdict.UNDECIDED
NACKED = ConfirmRange(1, 1, False)
CAME_BACK = ReturnedMessage(312, "NO_ROUTE", "", "orders", b"", b"")


def judged_by(transport: ScriptedTransport, rows: list[PendingRow]) -> list[PublishedRow]:
    return asyncio.run(RowPublisher(transport, 1.0).publish(rows))


def verdicts(judged: list[PublishedRow]) -> list[RowVerdict]:
    return [each.verdict for each in judged]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, SENT),
        (PublishFailed([], [CAME_BACK]), REFUSED),
        (PublishFailed([NACKED], [CAME_BACK]), REFUSED),
        (PublishFailed([NACKED], []), PUT_OFF),
        (ChannelClosed("no exchange 'shop'", 404), REFUSED),
        (ChannelClosed("closed by us"), UNDECIDED),
        (CannotConvert("properties of 200000 bytes do not fit a frame"), REFUSED),
        (CallTimeout("no confirm in time"), UNDECIDED),
        (ConnectionLost("gone"), UNDECIDED),
        (ConnectionClosed("closed by us"), UNDECIDED),
        (ConnectionClosed("the broker stops", 320), UNDECIDED),
        (ConnectionClosed("a message that ends connections", 501), REFUSED),
        (CannotConnect([("broker:5672", "connection refused")]), UNDECIDED),
        (LoginRefused("no such user"), UNDECIDED),
    ],
)
def test_a_row_fails_for_its_own_error_and_not_for_an_error_of_the_connection(
    answer: ClientError | None, verdict: RowVerdict
) -> None:
    transport = ScriptedTransport(lambda message: answer)
    assert verdicts(judged_by(transport, [row(1)])) == [verdict]


def not_sent(trouble: ClientError) -> ClientError:
    trouble.outcome = "not_sent"
    return trouble


@pytest.mark.parametrize(
    ("answer", "is_final"),
    [
        (LoginRefused("no such user"), True),
        (not_sent(ConnectionClosed("the transport was closed")), True),
        (ClientError("the publishing connection is not made again"), True),
        (CannotConnect([("broker:5672", "connection refused")]), False),
        (not_sent(CallTimeout("the broker took no publishes")), False),
        (ConnectionLost("gone"), False),
        (ConnectionClosed("a message that ends connections", 501), False),
        (ChannelClosed("no exchange 'shop'", 404), False),
        (CannotConvert("properties of 200000 bytes do not fit a frame"), False),
        (PublishFailed([NACKED], []), False),
    ],
)
def test_a_transport_has_given_up_if_it_takes_nothing_and_will_not(answer: ClientError, is_final: bool) -> None:
    assert has_given_up(answer) is is_final


def test_a_transport_that_refuses_all_of_it_leaves_them_undecided() -> None:
    transport = ScriptedTransport()

    async def closed() -> None:
        raise ConnectionClosed("the transport was closed")

    transport.meanwhile = closed
    assert verdicts(judged_by(transport, [row(1), row(2)])) == [UNDECIDED, UNDECIDED]


def test_a_row_that_is_no_message_is_refused_and_its_neighbours_are_sent() -> None:
    transport = ScriptedTransport()
    judged = judged_by(transport, [row(1), row(2, properties="nonsense"), row(3)])
    assert {each.row.id: each.verdict for each in judged} == {1: SENT, 2: REFUSED, 3: SENT}
    assert "the row's properties cannot be read" in str(judged[0].trouble)


def test_a_message_has_its_id_its_attempt_and_its_key() -> None:
    properties = outgoing_of_row(row(7, "account 1", '{"headers":{"table":4}}', attempt=2)).message.properties
    assert properties is not None
    assert properties.message_id == "id 7"
    assert properties.headers == {"table": 4, "x-attempt": 3, "x-key": "account 1"}


def test_x_written_at_is_the_time_of_the_row_unless_its_headers_have_another() -> None:
    written = row(7)._replace(created_at=datetime(2026, 1, 1, 0, 0, 0, 900_000, tzinfo=UTC))
    standing = written._replace(properties='{"headers":{"x-written-at":{"$timestamp":1}}}')
    for each, seconds in ((written, 1_767_225_600), (standing, 1)):
        properties = outgoing_of_row(each).message.properties
        assert properties is not None
        assert (properties.headers or {})["x-written-at"] == Timestamp(seconds)


def test_a_message_without_a_key_says_none() -> None:
    properties = outgoing_of_row(row(7)).message.properties
    assert properties is not None
    assert properties.headers == {"x-attempt": 1}
