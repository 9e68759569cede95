"""Messages that are asked for one by one, by `Transport.get`.

A queue that is missing ends the channel on which it is asked for, and with it what others have in hand there. So each
queue has a `Desk` of its own, and the channels of the queues that were asked for last are kept, no more than
`DESKS_MAX` of them: a program that looks into ever other queues does not use up the channels of its connection.

Without acks, too, the broker is asked for an ack, which it gets when the message is handed out. So a message that comes
for somebody who has gone meanwhile, because the call was cancelled or took too long, goes back to its queue. The price
is that a connection which ends at that moment may deliver it once more.

Not here: subscriptions (`recovering.subscription`).
"""

import asyncio
from collections import OrderedDict
from typing import Final

from warren.client.connection import Connection
from warren.client.recovering.incoming import Desk, HeldMessage, opened

DESKS_MAX: Final = 32


class Fetching:
    """The desks of a transport at which single messages are fetched."""

    def __init__(self) -> None:
        # by queue and whether acks are wanted; the one that was used last is the last
        self._desks: OrderedDict[tuple[str, bool], Desk] = OrderedDict()
        # that hand out nothing more, and wait for acks
        self._leaving: list[Desk] = []

    async def fetch(self, connection: Connection, queue: str, no_ack: bool) -> HeldMessage | None:
        """The first ready message of a queue, if it has one."""
        desk = self._usable(queue, no_ack) or await self._open(connection, queue, no_ack)
        return await desk.fetch(queue)

    async def idle(self) -> None:
        """Returns when all that was handed out is settled, or need not be any more."""
        await asyncio.gather(*(desk.idle() for desk in [*self._leaving, *self._desks.values()]))

    def _usable(self, queue: str, no_ack: bool) -> Desk | None:
        desk = self._desks.get((queue, no_ack))
        if desk is None or not desk.is_usable:
            return None
        self._desks.move_to_end((queue, no_ack))
        return desk

    async def _open(self, connection: Connection, queue: str, no_ack: bool) -> Desk:
        desk = Desk(await opened(connection), no_ack)
        if (others := self._usable(queue, no_ack)) is not None:
            # somebody else who asks for the same was faster
            desk.retire()
            return others
        replaced = self._desks.pop((queue, no_ack), None)
        self._desks[queue, no_ack] = desk
        self._leaving = [each for each in [*self._leaving, replaced] if each is not None and each.in_hand]
        while len(self._desks) > DESKS_MAX:
            _, oldest = self._desks.popitem(last=False)
            oldest.retire()
            self._leaving.append(oldest)
        return desk
