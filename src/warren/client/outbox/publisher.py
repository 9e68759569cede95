"""Rows as messages, the order of their publishing, and their outcomes.

    sent        the broker has it
    refused     by the broker, because of the message or its destination: unroutable, no such exchange
    put off     by the broker, because of its state: nacked, because a queue is full or has no master
    undecided   the outcome is unknown: it is sent again

A message to a missing exchange closes its channel, with other messages on it. The transport finds out which message
caused it, so each outcome is about its own message.

**Waves.** A *wave* has at most one row of each key, and all rows without a key. Two rows of a key are never in flight
together: if the first were refused and the second accepted, no resend could restore the order. So a key gets as many
rows a second as there are confirms, and many keys go in parallel. Every row is in at most one wave; rows of a key keep
their order; after a held row no row of its key follows.

Not here: selecting rows and recording outcomes (`outbox.table`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from warren.client.errors import CannotConvert, ChannelClosed, ClientError, ConnectionClosed, PublishFailed
from warren.client.machine.publishes import Message
from warren.client.outbox.outbox import WRITTEN_HEADER, stored_properties
from warren.client.transport import Outgoing, Transport
from warren.wire.field_tables import Timestamp

ATTEMPT_HEADER = "x-attempt"
KEY_HEADER = "x-key"


class PendingRow(NamedTuple):
    """The columns of a row that the relay reads."""

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


class RowVerdict(Enum):
    SENT = "sent"
    REFUSED = "refused"
    PUT_OFF = "put off"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    row: PendingRow
    verdict: RowVerdict
    trouble: ClientError | None = None


class RowPublisher:
    """Publishes rows, and derives their outcomes from the transport's answers."""

    def __init__(self, transport: Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s

    async def publish(self, rows: Sequence[PendingRow]) -> list[PublishedRow]:
        """Publish rows together; returns the outcome of each."""
        published: list[PublishedRow] = []
        messages: list[tuple[PendingRow, Outgoing]] = []
        for row in rows:
            try:
                messages.append((row, outgoing_of_row(row)))
            except CannotConvert as trouble:
                published.append(_published_row(row, trouble))
        answers = await self._answers([message for _, message in messages])
        return published + [_published_row(row, trouble) for (row, _), trouble in zip(messages, answers, strict=True)]

    async def _answers(self, messages: Sequence[Outgoing]) -> Sequence[ClientError | None]:
        try:
            return await self._transport.publish(messages, self._timeout_s) if messages else []
        except ClientError as trouble:
            return [trouble] * len(messages)


def outgoing_of_row(row: PendingRow) -> Outgoing:
    """The message of a row, with the headers for attempt, age and key; `CannotConvert` if the row is invalid."""
    properties = stored_properties(row.properties)
    properties.message_id = row.business_id
    properties.headers = {**(properties.headers or {}), ATTEMPT_HEADER: row.attempt + 1}
    # a confirmation or reversal has the time of its message
    if row.created_at is not None and WRITTEN_HEADER not in properties.headers:
        properties.headers[WRITTEN_HEADER] = Timestamp(int(row.created_at.timestamp()))
    if row.ordering_key:
        properties.headers[KEY_HEADER] = row.ordering_key
    # SQLite accepts text in a column of bytes
    body = row.body.encode() if isinstance(row.body, str) else row.body
    return Outgoing(Message(body, properties), row.exchange, row.routing_key)


def _published_row(row: PendingRow, trouble: ClientError | None) -> PublishedRow:
    if trouble is None:
        return PublishedRow(row, RowVerdict.SENT)
    if isinstance(trouble, PublishFailed) and not trouble.returned:
        return PublishedRow(row, RowVerdict.PUT_OFF, trouble)
    return PublishedRow(row, RowVerdict.REFUSED if _is_its_fault(trouble) else RowVerdict.UNDECIDED, trouble)


def has_given_up(trouble: ClientError) -> bool:
    """Whether the transport will never publish again: it was closed, or its login is refused.

    The error is not retriable, nothing was sent, and the message is not the cause.
    """
    return trouble.outcome == "not_sent" and not trouble.retriable and not isinstance(trouble, CannotConvert)


def _is_its_fault(trouble: ClientError) -> bool:
    """Whether the message or its destination caused the error, and not the connection."""
    if isinstance(trouble, ChannelClosed | ConnectionClosed):
        return trouble.code != 0 and not trouble.retriable
    return trouble.outcome == "rejected" or isinstance(trouble, CannotConvert)


class PublishWaves:
    """Rows in the order of their ids, divided into waves."""

    def __init__(self, rows: Sequence[PendingRow]) -> None:
        self._loose = [row for row in rows if not row.ordering_key]
        self._lines: dict[str, deque[PendingRow]] = {}
        for row in rows:
            if row.ordering_key:
                self._lines.setdefault(row.ordering_key, deque()).append(row)

    def next(self) -> list[PendingRow]:
        """The next wave; empty when no row is left."""
        wave = self._loose + [line.popleft() for line in self._lines.values()]
        self._loose = []
        self._lines = {key: line for key, line in self._lines.items() if line}
        return wave

    def hold(self, key: str) -> None:
        """Skip all further rows of a key."""
        self._lines.pop(key, None)
