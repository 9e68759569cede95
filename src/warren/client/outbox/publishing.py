"""Rows of the table as messages, and what became of each.

    sent        the broker has it
    refused     by the broker, for what it is or where it goes: nacked, unroutable, no such exchange
    undecided   nobody knows: it is to be sent again

A message to an exchange that is not there ends the channel, and so takes the answers of its neighbours along. Whoever
was in such company is published once more, alone: the one at fault then stands out, and the others go through.

Not here: in which order (`outbox.waves`), what is written about it (`outbox.shelf`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from warren.client.errors import CannotConvert, ChannelClosed, ClientError
from warren.client.machine.publishing import Message
from warren.client.outbox.stored_properties import stored_properties
from warren.client.transport import Outgoing, Transport

ATTEMPT_HEADER = "x-attempt"
KEY_HEADER = "x-key"


Answer = Exception | None


class PendingRow(NamedTuple):
    """What the relay reads of a row."""

    id: int
    business_id: str
    ordering_key: str
    exchange: str
    routing_key: str
    properties: str
    body: bytes
    attempt: int
    refusals: int


class Verdict(Enum):
    SENT = "sent"
    REFUSED = "refused"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Judged:
    row: PendingRow
    verdict: Verdict
    trouble: Exception | None = None


class Publisher:
    """Publishes rows, and judges what the transport says of them."""

    def __init__(self, transport: Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s

    async def publish(self, rows: Sequence[PendingRow]) -> list[Judged]:
        """All at once; what became of each, in the same order."""
        troubles = await self._troubles(rows)
        if len(rows) > 1 and any(_is_somebodys_fault(trouble) for trouble in troubles):
            troubles = await self._troubles_alone(rows, troubles)
        return [_judged(row, trouble) for row, trouble in zip(rows, troubles, strict=True)]

    async def _troubles_alone(self, rows: Sequence[PendingRow], troubles: Sequence[Answer]) -> list[Answer]:
        """The same answers, but those for which somebody else may be to blame, which are asked for again one by one."""
        found: list[Answer] = []
        silent: Answer = None
        for row, trouble in zip(rows, troubles, strict=True):
            alone = trouble
            if _is_somebodys_fault(trouble):
                # a broker that does not answer one now answers none
                [alone] = [silent] if silent else await self._troubles([row])
                silent = alone if _judged(row, alone).verdict is Verdict.UNDECIDED else None
            found.append(alone)
        return found

    async def _troubles(self, rows: Sequence[PendingRow]) -> Sequence[Answer]:
        try:
            messages = [outgoing(row) for row in rows]
            return await self._transport.publish(messages, self._timeout_s)
        except (ClientError, ValueError) as trouble:
            return [trouble] * len(rows)


def outgoing(row: PendingRow) -> Outgoing:
    """The message that a row is, with its attempt and its key; a `CannotConvert` if it is none."""
    properties = stored_properties(row.properties)
    properties.message_id = row.business_id
    properties.headers = {**(properties.headers or {}), ATTEMPT_HEADER: row.attempt + 1}
    if row.ordering_key:
        properties.headers[KEY_HEADER] = row.ordering_key
    return Outgoing(Message(row.body, properties), row.exchange, row.routing_key)


def _judged(row: PendingRow, trouble: Answer) -> Judged:
    if trouble is None:
        return Judged(row, Verdict.SENT)
    refused = _is_rejection(trouble) or _is_somebodys_fault(trouble)
    return Judged(row, Verdict.REFUSED if refused else Verdict.UNDECIDED, trouble)


def _is_rejection(trouble: Exception) -> bool:
    return isinstance(trouble, ClientError) and trouble.outcome == "rejected"


def _is_somebodys_fault(trouble: Answer) -> bool:
    """Whether one message is to blame for it, possibly another than the one that was told."""
    if isinstance(trouble, ChannelClosed):
        return trouble.code != 0
    return isinstance(trouble, ValueError | CannotConvert)
