"""Rows of the table as messages, and what became of each.

    sent        the broker has it
    refused     by the broker, for what it is or where it goes: unroutable, no such exchange
    put off     by the broker, for the state that it is in: nacked, because a queue is full or has no master
    undecided   nobody knows: it is to be sent again

A message to an exchange that is not there ends a channel, with others on it; that the transport tells who is to blame
for that is its promise: each answer is about its own message.

Not here: in which order (`outbox.waves`), what is written about it (`outbox.shelf`).

The order of publishing: rows with a key one after the other, each when the one before it is confirmed.

A *wave* has at most one row of each key, and all rows without one. Two of a key are never on their way together: if
the first were refused the second might be taken, and no later sending could put that right. So a key carries as many
rows a second as there are confirms, and many keys go side by side.

Invariants: every row is in one wave at most; rows of a key come in the order in which they were given; behind a row
that was held nothing of its key comes.

Not here: which rows there are (`outbox.shelf`), publishing them (`outbox.publishing`).
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
    """Publishes rows, and judges what the transport says of them."""

    def __init__(self, transport: Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s

    async def publish(self, rows: Sequence[PendingRow]) -> list[PublishedRow]:
        """All at once; what became of each."""
        judged: list[PublishedRow] = []
        messages: list[tuple[PendingRow, Outgoing]] = []
        for row in rows:
            try:
                messages.append((row, outgoing_of_row(row)))
            except CannotConvert as trouble:
                judged.append(_published_row(row, trouble))
        answers = await self._answers([message for _, message in messages])
        return judged + [_published_row(row, trouble) for (row, _), trouble in zip(messages, answers, strict=True)]

    async def _answers(self, messages: Sequence[Outgoing]) -> Sequence[ClientError | None]:
        try:
            return await self._transport.publish(messages, self._timeout_s) if messages else []
        except ClientError as trouble:
            return [trouble] * len(messages)


def outgoing_of_row(row: PendingRow) -> Outgoing:
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


def _published_row(row: PendingRow, trouble: ClientError | None) -> PublishedRow:
    if trouble is None:
        return PublishedRow(row, RowVerdict.SENT)
    if isinstance(trouble, PublishFailed) and not trouble.returned:
        return PublishedRow(row, RowVerdict.PUT_OFF, trouble)
    return PublishedRow(row, RowVerdict.REFUSED if _is_its_fault(trouble) else RowVerdict.UNDECIDED, trouble)


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


class PublishWaves:
    """Rows in the order of their ids, dealt out in waves."""

    def __init__(self, rows: Sequence[PendingRow]) -> None:
        self._loose = [row for row in rows if not row.ordering_key]
        self._lines: dict[str, deque[PendingRow]] = {}
        for row in rows:
            if row.ordering_key:
                self._lines.setdefault(row.ordering_key, deque()).append(row)

    def next(self) -> list[PendingRow]:
        """The next wave; empty when all are dealt out or held."""
        wave = self._loose + [line.popleft() for line in self._lines.values()]
        self._loose = []
        self._lines = {key: line for key, line in self._lines.items() if line}
        return wave

    def hold(self, key: str) -> None:
        """Deal out no more rows of this key."""
        self._lines.pop(key, None)
