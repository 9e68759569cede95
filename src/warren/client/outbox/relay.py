"""The process that publishes what the table has: one is active among as many as there are.

    serve       read rows, publish them in waves, write down what became of them, over and over
    stop        finish what is in hand, and let go of the lease

If the lease is lost, whatever was published meanwhile is published again by whoever took over, and marked by nobody
else. The order of a key stands even while both publish: each sends a row when it has the confirm of the row before it,
so whichever of them is the first to send a row, the one before it has arrived.

If a whole pass comes to nothing, and the broker answered for no row, it is the broker that cannot be reached: the rows
stay untouched and the relay pauses. If it answered for some, those that it did not take are put back for a moment each,
so that one silent or full queue does not hold up the others.

A transport that has given up ends the relay: one that kept the lease would keep out another that can publish.

A database that is gone for a while is logged, and tried again; only at the start is it an error.

Not here: whose turn it is (`tables.leading`), the SQL (`outbox.shelf`), the judgement of answers
(`outbox.publishing`), the order (`outbox.waves`).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Engine

from warren.client.measures import DATABASE, Measure, Point
from warren.client.outbox.publishing import Judged, PendingRow, Publisher, Verdict, has_given_up
from warren.client.outbox.settings import RelaySettings
from warren.client.outbox.shelf import LEASE, Shelf
from warren.client.outbox.waking import Waking, waking_for
from warren.client.outbox.waves import Waves
from warren.client.tables.claiming import Claim
from warren.client.tables.leading import Leading, wait
from warren.client.tables.places import place_of
from warren.client.transport import Transport

PASS_S_MAX = 1.0
"""After which no more waves of a pass are begun: what was confirmed is to be written down soon."""

CLEAN_EVERY_S = 60.0
VERDICT = "warren.verdict"

log = logging.getLogger("warren.client.outbox")


class Relay:
    """Publishes the rows of one database through one transport; `run` until `stop`, or `drain` once.

    A relay runs once: for another run make another one.
    """

    def __init__(self, engine: Engine, transport: Transport, settings: RelaySettings | None = None) -> None:
        self._settings = settings or RelaySettings()
        self._claim = Claim(engine, LEASE, self._settings.lease_s)
        self._shelf = Shelf(engine, self._claim, self._settings)
        self._publisher = Publisher(transport, self._settings.publish_timeout_s)
        self._woken = asyncio.Event()
        self._leading = Leading(self._claim, log, "relay", self._woken)
        self._waking: Waking = waking_for(engine, self._woken)
        self._stopped = asyncio.Event()
        self._clean_at = 0.0
        self._judged: Counter[Verdict] = Counter()
        self._where = {DATABASE: place_of(engine)}

    async def run(self) -> None:
        """Until `stop`. A database that cannot be reached or used at the start is an error, later a pause.

        A transport that was closed, or whose user is no longer let in, is an error at any time.
        """
        await asyncio.to_thread(self._claim.check)
        try:
            await self._leading.run(self._serve, self._stopped, self._settings.backoff_s)
        finally:
            self._waking.close()

    def stop(self) -> None:
        """Have `run` return when what is in hand is written down; may be a signal's handler in the loop."""
        self._stopped.set()
        self._woken.set()

    async def drain(self) -> int:
        """Publish what may go until there is no more; how many rows were sent, which is 0 if another relay is active.

        If nothing gets through at all, the error of the first row.
        """
        await asyncio.to_thread(self._claim.check)
        sent = 0
        async with self._leading.lead():
            while self._goes_on and (rows := await asyncio.to_thread(self._shelf.rows)):
                judged = await self._pass(rows)
                if not _came_to_something(judged):
                    raise judged[0].trouble or AssertionError("a row without an answer")
                sent += sum(each.verdict is Verdict.SENT for each in judged) if self._leading.leads else 0
        return sent

    def measures(self) -> Sequence[Measure]:
        """What became of the rows that it published, and whether it is the active one."""
        return [
            Measure("warren.client.relay.rows", "{row}", "Rows that were published, by verdict", "counter", self._rows),
            Measure("warren.client.relay.leads", "1", "Whether this relay is the active one", "gauge", self._leads),
        ]

    def _rows(self) -> list[Point]:
        return [(self._judged[verdict], {**self._where, VERDICT: verdict.value}) for verdict in Verdict]

    def _leads(self) -> list[Point]:
        return [(int(self._leading.leads), self._where)]

    @property
    def _goes_on(self) -> bool:
        return self._leading.leads and not self._stopped.is_set()

    async def _serve(self) -> None:
        while self._goes_on:
            # before anything is looked at: what happens from here on wakes it
            self._woken.clear()
            await self._waking.open()
            cleaned = await self._clean_from_time_to_time()
            if rows := await asyncio.to_thread(self._shelf.rows):
                if not _came_to_something(await self._pass(rows)):
                    await wait(self._stopped, self._settings.backoff_s)
            elif not cleaned:
                await self._rest()

    async def _pass(self, rows: Sequence[PendingRow]) -> list[Judged]:
        """Publish them and write down what became of them, unless nothing came of any.

        The transport's own error if it has given up.
        """
        judged = await self._publish(rows)
        self._judged.update(each.verdict for each in judged)
        if not _came_to_something(judged):
            log.warning("relay.broker_unreachable", extra={"rows": len(judged), "reason": str(judged[0].trouble)})
        elif not await asyncio.to_thread(self._shelf.settle, judged):
            self._leading.lose()
        _log_what_was_not_taken(judged)
        _check_transport(judged)
        return judged

    async def _publish(self, rows: Sequence[PendingRow]) -> list[Judged]:
        loop = asyncio.get_running_loop()
        waves = Waves(rows)
        over_at = loop.time() + PASS_S_MAX
        judged: list[Judged] = []
        while wave := waves.next():
            answered = await self._publisher.publish(wave)
            judged += answered
            for each in answered:
                if each.verdict is not Verdict.SENT:
                    waves.hold(each.row.ordering_key)
            silent = any(each.verdict is Verdict.UNDECIDED for each in answered)
            if silent or loop.time() >= over_at or not self._goes_on:
                break
        return judged

    async def _clean_from_time_to_time(self) -> int:
        now = asyncio.get_running_loop().time()
        if now < self._clean_at:
            return 0
        cleaned = await asyncio.to_thread(self._shelf.clean)
        self._clean_at = now + (0.0 if cleaned else CLEAN_EVERY_S)
        return cleaned

    async def _rest(self) -> None:
        """Nothing may go: wait for a word, for a row's time, or long enough."""
        look_after_s = self._settings.listening_poll_s if self._waking.tells else self._settings.poll_s
        due_s = await asyncio.to_thread(self._shelf.next_due_s)
        await wait(self._woken, look_after_s if due_s is None else min(look_after_s, due_s))


def _log_what_was_not_taken(judged: Sequence[Judged]) -> None:
    for each in judged:
        if each.verdict is Verdict.REFUSED:
            facts = {"business_id": each.row.business_id, "attempt": each.row.attempt + 1, "reason": str(each.trouble)}
            log.warning("relay.row_refused", extra=facts)
    # a full queue may put off all that there is, again and again
    if put_off := [each for each in judged if each.verdict is Verdict.PUT_OFF]:
        log.warning("relay.rows_put_off", extra={"rows": len(put_off), "reason": str(put_off[0].trouble)})


def _check_transport(judged: Sequence[Judged]) -> None:
    for trouble in (each.trouble for each in judged):
        if trouble is not None and has_given_up(trouble):
            log.error("relay.transport_ended", extra={"reason": str(trouble)})
            raise trouble


def _came_to_something(judged: Sequence[Judged]) -> bool:
    return any(each.verdict is not Verdict.UNDECIDED for each in judged)
