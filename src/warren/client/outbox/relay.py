"""The relay: publishes the rows of the outbox. One of many is active.

    serve       read rows, publish them in waves, record their outcomes, repeatedly
    stop        finish the current batch, and release the lease

If the lease is lost, the next relay publishes the unmarked rows again, and only it marks them. The order of a key holds
even while both publish: each sends a row after the confirm of the row before it, so the first sending of a row always
follows the arrival of the one before.

If a whole pass has no progress and the broker answered for no row, the broker is unreachable: the rows stay untouched
and the relay pauses. If it answered for some, each of the others is delayed for a moment, so that one silent or full
queue does not hold up the rest.

A transport that has given up ends the relay: keeping the lease would block a relay that can publish.

A lost database is logged and tried again; only at the start is it an error.

**Wake-ups.** PostgreSQL's `NOTIFY` is part of the transaction that adds a row, and reaches listeners when it commits. A
notification that is missed while the connection is down is made up for by polling. The relay reads the table after it
began to listen, so no row falls between the two.

Not here: the lease (`tables.leases`), the SQL (`outbox.table`), outcomes and order (`outbox.publisher`).
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from warren.client.measures import DATABASE, Measure, Point
from warren.client.outbox.outbox import CHANNEL
from warren.client.outbox.publisher import (
    PendingRow,
    PublishedRow,
    PublishWaves,
    RowPublisher,
    RowVerdict,
    has_given_up,
)
from warren.client.outbox.table import LEASE, OutboxTable, RelaySettings
from warren.client.tables.connections import database_name
from warren.client.tables.leases import LeaderLoop, LeaseHolder, wait_for_event
from warren.client.transport import Transport


class WakeupSource(Protocol):
    """Sets an event when there may be new rows."""

    @property
    def notifies(self) -> bool:
        """Whether notifications arrive; if not, the relay polls."""

    async def open(self) -> None:
        """Begin to listen, unless it does already; raises the database's error."""

    def close(self) -> None: ...


def wakeup_source_for(engine: Engine, woken: asyncio.Event) -> WakeupSource:
    """The source for this database and its driver."""
    if engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg":
        return PostgresWakeups(engine, woken)
    return NoWakeups()


class NoWakeups:
    """For a database without notifications."""

    notifies = False

    async def open(self) -> None:
        return

    def close(self) -> None:
        return


class PostgresWakeups:
    """PostgreSQL's notifications, over a connection of their own."""

    def __init__(self, engine: Engine, woken: asyncio.Event) -> None:
        self._engine = engine
        self._woken = woken
        self._listening: _NotifyConnection | None = None

    @property
    def notifies(self) -> bool:
        return self._listening is not None

    async def open(self) -> None:
        if self._listening is None:
            self._listening = await asyncio.to_thread(_NotifyConnection, self._engine)
            asyncio.get_running_loop().add_reader(self._listening.fileno, self._readable)

    def close(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno)
            self._listening.close()
            self._listening = None

    def _readable(self) -> None:
        if self._listening is not None and not self._listening.take():
            self.close()
        self._woken.set()


class _NotifyConnection:
    """A connection that is read when data arrives."""

    def __init__(self, engine: Engine) -> None:
        # imported here, because only PostgreSQL needs this driver
        from psycopg import Connection, OperationalError

        self._lost = OperationalError
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, Connection)
        self._driver = driver
        # it lives as long as the relay and must not occupy the pool
        self._connection.detach()
        self._connection.exec_driver_sql(f"LISTEN {CHANNEL}")
        self.fileno = driver.fileno()

    def take(self) -> bool:
        """Read the notifications; False if the connection is lost."""
        try:
            self._driver.pgconn.consume_input()
            while self._driver.pgconn.notifies():
                pass
        except self._lost:
            return False
        return True

    def close(self) -> None:
        self._driver.close()
        # closing rolls back, which may fail on a lost connection
        with contextlib.suppress(DBAPIError):
            self._connection.close()


PASS_S_MAX = 1.0
"""The time after which a pass begins no more waves, so that confirms are recorded soon."""

CLEAN_EVERY_S = 60.0
VERDICT = "warren.verdict"

log = logging.getLogger("warren.client.outbox")


class Relay:
    """Publishes the rows of one database through one transport: `run` until `stop`, or `drain` once.

    A relay runs once; make a new one for another run.
    """

    def __init__(self, engine: Engine, transport: Transport, settings: RelaySettings | None = None) -> None:
        self._settings = settings or RelaySettings()
        self._claim = LeaseHolder(engine, LEASE, self._settings.lease_s)
        self._table = OutboxTable(engine, self._claim, self._settings)
        self._publisher = RowPublisher(transport, self._settings.publish_timeout_s)
        self._woken = asyncio.Event()
        self._leading = LeaderLoop(self._claim, log, "relay", self._woken)
        self._wakeups: WakeupSource = wakeup_source_for(engine, self._woken)
        self._stopped = asyncio.Event()
        self._clean_at = 0.0
        self._verdicts: Counter[RowVerdict] = Counter()
        self._where = {DATABASE: database_name(engine)}

    async def run(self) -> None:
        """Run until `stop`. An unusable database is an error at the start, and later a pause.

        A transport that was closed, or whose login is refused, is an error at any time.
        """
        await asyncio.to_thread(self._claim.check)
        try:
            await self._leading.run(self._serve, self._stopped, self._settings.backoff_s)
        finally:
            self._wakeups.close()

    def stop(self) -> None:
        """Let `run` return after the current batch; may be a signal handler of the loop."""
        self._stopped.set()
        self._woken.set()

    async def drain(self) -> int:
        """Publish until no row may be published; returns how many were sent, 0 if another relay is active.

        If nothing can be published at all, raises the error of the first row.
        """
        await asyncio.to_thread(self._claim.check)
        sent = 0
        async with self._leading.lead():
            while self._goes_on and (rows := await asyncio.to_thread(self._table.rows)):
                published = await self._pass(rows)
                if not _made_progress(published):
                    raise published[0].trouble or AssertionError("a row without an answer")
                sent += sum(each.verdict is RowVerdict.SENT for each in published) if self._leading.leads else 0
        return sent

    def measures(self) -> Sequence[Measure]:
        """The outcomes of published rows, and whether this relay is active."""
        return [
            Measure("warren.client.relay.rows", "{row}", "Rows that were published, by verdict", "counter", self._rows),
            Measure("warren.client.relay.leads", "1", "Whether this relay is the active one", "gauge", self._leads),
        ]

    def _rows(self) -> list[Point]:
        return [(self._verdicts[verdict], {**self._where, VERDICT: verdict.value}) for verdict in RowVerdict]

    def _leads(self) -> list[Point]:
        return [(int(self._leading.leads), self._where)]

    @property
    def _goes_on(self) -> bool:
        return self._leading.leads and not self._stopped.is_set()

    async def _serve(self) -> None:
        while self._goes_on:
            # before the rows are read, so that later changes wake it
            self._woken.clear()
            await self._wakeups.open()
            cleaned = await self._clean_from_time_to_time()
            if rows := await asyncio.to_thread(self._table.rows):
                if not _made_progress(await self._pass(rows)):
                    await wait_for_event(self._stopped, self._settings.backoff_s)
            elif not cleaned:
                await self._rest()

    async def _pass(self, rows: Sequence[PendingRow]) -> list[PublishedRow]:
        """Publish rows and record their outcomes, unless there was no progress.

        Raises the transport's error if it has given up.
        """
        published = await self._publish(rows)
        self._verdicts.update(each.verdict for each in published)
        if not _made_progress(published):
            log.warning("relay.broker_unreachable", extra={"rows": len(published), "reason": str(published[0].trouble)})
        elif not await asyncio.to_thread(self._table.settle, published):
            self._leading.lose()
        _log_refusals(published)
        _check_transport(published)
        return published

    async def _publish(self, rows: Sequence[PendingRow]) -> list[PublishedRow]:
        loop = asyncio.get_running_loop()
        waves = PublishWaves(rows)
        over_at = loop.time() + PASS_S_MAX
        published: list[PublishedRow] = []
        while wave := waves.next():
            answered = await self._publisher.publish(wave)
            published += answered
            for each in answered:
                if each.verdict is not RowVerdict.SENT:
                    waves.hold(each.row.ordering_key)
            silent = any(each.verdict is RowVerdict.UNDECIDED for each in answered)
            if silent or loop.time() >= over_at or not self._goes_on:
                break
        return published

    async def _clean_from_time_to_time(self) -> int:
        now = asyncio.get_running_loop().time()
        if now < self._clean_at:
            return 0
        cleaned = await asyncio.to_thread(self._table.clean)
        self._clean_at = now + (0.0 if cleaned else CLEAN_EVERY_S)
        return cleaned

    async def _rest(self) -> None:
        """Wait for a notification, for the due time of a row, or for the poll interval."""
        look_after_s = self._settings.listening_poll_s if self._wakeups.notifies else self._settings.poll_s
        due_s = await asyncio.to_thread(self._table.next_due_s)
        await wait_for_event(self._woken, look_after_s if due_s is None else min(look_after_s, due_s))


def _log_refusals(published: Sequence[PublishedRow]) -> None:
    for each in published:
        if each.verdict is RowVerdict.REFUSED:
            facts = {"business_id": each.row.business_id, "attempt": each.row.attempt + 1, "reason": str(each.trouble)}
            log.warning("relay.row_refused", extra=facts)
    # a full queue may put off all rows, again and again
    if put_off := [each for each in published if each.verdict is RowVerdict.PUT_OFF]:
        log.warning("relay.rows_put_off", extra={"rows": len(put_off), "reason": str(put_off[0].trouble)})


def _check_transport(published: Sequence[PublishedRow]) -> None:
    for trouble in (each.trouble for each in published):
        if trouble is not None and has_given_up(trouble):
            log.error("relay.transport_ended", extra={"reason": str(trouble)})
            raise trouble


def _made_progress(published: Sequence[PublishedRow]) -> bool:
    return any(each.verdict is not RowVerdict.UNDECIDED for each in published)
