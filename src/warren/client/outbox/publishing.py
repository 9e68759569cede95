"""Rows of the table as messages, and what became of each.

    sent        the broker has it
    refused     by the broker, for what it is or where it goes: unroutable, no such exchange
    put off     by the broker, for the state that it is in: nacked, because a queue is full or has no master
    undecided   nobody knows: it is to be sent again

A message to an exchange that is not there ends a channel, with others on it; that the transport tells who is to blame
for that is its promise: each answer is about its own message.

Not here: in which order (`outbox.waves`), what is written about it (`outbox.shelf`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from warren.client.errors import CannotConvert, ChannelClosed, ClientError, ConnectionClosed, PublishFailed
from warren.client.machine.publishing import Message
from warren.client.outbox.kinds import WRITTEN_HEADER
from warren.client.outbox.stored_properties import stored_properties
from warren.client.transport import Outgoing, Transport
from warren.wire.values import Timestamp

ATTEMPT_HEADER = "x-attempt"
KEY_HEADER = "x-key"


class PendingRow(NamedTuple):
    """What the relay reads of a row."""

    id: int
    business_id: str
    ordering_key: str
    exchange: str
    routing_key: str
    properties: str
    body: bytes | str
    attempt: int
    refusals: int
    created_at: datetime | None = None


class Verdict(Enum):
    SENT = "sent"
    REFUSED = "refused"
    PUT_OFF = "put off"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Judged:
    row: PendingRow
    verdict: Verdict
    trouble: ClientError | None = None


class Publisher:
    """Publishes rows, and judges what the transport says of them."""

    def __init__(self, transport: Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s

    async def publish(self, rows: Sequence[PendingRow]) -> list[Judged]:
        """All at once; what became of each."""
        judged: list[Judged] = []
        messages: list[tuple[PendingRow, Outgoing]] = []
        for row in rows:
            try:
                messages.append((row, outgoing(row)))
            except CannotConvert as trouble:
                judged.append(_judged(row, trouble))
        answers = await self._answers([message for _, message in messages])
        return judged + [_judged(row, trouble) for (row, _), trouble in zip(messages, answers, strict=True)]

    async def _answers(self, messages: Sequence[Outgoing]) -> Sequence[ClientError | None]:
        try:
            return await self._transport.publish(messages, self._timeout_s) if messages else []
        except ClientError as trouble:
            return [trouble] * len(messages)


def outgoing(row: PendingRow) -> Outgoing:
    """The message that a row is, with its attempt, its age and its key; a `CannotConvert` if it is none."""
    properties = stored_properties(row.properties)
    properties.message_id = row.business_id
    properties.headers = {**(properties.headers or {}), ATTEMPT_HEADER: row.attempt + 1}
    # what stands for another row has the time of that one
    if row.created_at is not None and WRITTEN_HEADER not in properties.headers:
        properties.headers[WRITTEN_HEADER] = Timestamp(int(row.created_at.timestamp()))
    if row.ordering_key:
        properties.headers[KEY_HEADER] = row.ordering_key
    # SQLite lets text into a column of bytes
    body = row.body.encode() if isinstance(row.body, str) else row.body
    return Outgoing(Message(body, properties), row.exchange, row.routing_key)


def _judged(row: PendingRow, trouble: ClientError | None) -> Judged:
    if trouble is None:
        return Judged(row, Verdict.SENT)
    if isinstance(trouble, PublishFailed) and not trouble.returned:
        return Judged(row, Verdict.PUT_OFF, trouble)
    return Judged(row, Verdict.REFUSED if _is_its_fault(trouble) else Verdict.UNDECIDED, trouble)


def has_given_up(trouble: ClientError) -> bool:
    """Whether it says that the transport will never publish again: it was closed, or its user is not let in.

    It took nothing, says that another try is of no use, and it is not the message that is wrong.
    """
    return trouble.outcome == "not_sent" and not trouble.retriable and not isinstance(trouble, CannotConvert)


def _is_its_fault(trouble: ClientError) -> bool:
    """Whether it is the message that is wrong, or where it goes, and not the way there."""
    if isinstance(trouble, ChannelClosed | ConnectionClosed):
        return trouble.code != 0 and not trouble.retriable
    return trouble.outcome == "rejected" or isinstance(trouble, CannotConvert)
