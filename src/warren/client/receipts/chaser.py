"""The chaser: handles overdue and refused receipts, and raises alerts. One of many is active.

    chase    overdue or refused rows: resent, compensated or failed, a batch in a transaction
    alert    an alert for each failed row without one

    message                  overdue: resent, `resends` times; then, or if refused: compensated or failed.
                             To confirm a refused message is of no use
    confirmation, reversal   overdue: resent, until it was sent `compensations` times; then, or if refused: failed

A chaser works in the database alone; the relay sends the rows it makes pending. All state is in the rows, so a chaser
may be stopped or killed at any point, and another continues. The relay sets when a receipt is due after each sending
(`receipt_within_s` and `resent_receipt_within_s` of `RelaySettings`).

Every change is in a transaction that renews the lease first; after a lost lease nothing is written. A round is one
transaction. Receipts that arrive meanwhile wait for it, or it for them: rows are locked before the decision, messages
before the rows that confirm or reverse them.

**Alerts are raised at least once.** `alerted_at` is written after the alert. If a chaser is killed between the two, its
successor raises the alert again.

**A clock that was set back** leaves rows that were sent in the future and would wait too long. Such rows, among those
that are due last, get a new due time with the same waiting time.

Not here: the lease (`tables.leases`), compensating rows (`receipts.compensation`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, and_, bindparam, func, literal_column, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from warren.client.errors import CannotConvert, SettingsError, error_summary, error_trace
from warren.client.measures import DATABASE, Measure, Point
from warren.client.outbox.outbox import COMPENSATIONS, CONFIRMATION, REVERSAL, notify_relay
from warren.client.receipts.compensation import write_compensation
from warren.client.tables import LEASE_S_MAX, OUTBOX, database_time
from warren.client.tables.connections import database_name
from warren.client.tables.leases import LeaderLoop, LeaseHolder, wait_for_event

log = logging.getLogger("warren.client.receipts")


@dataclass(frozen=True, slots=True)
class Alert:
    """A failed message, for a person to look into."""

    business_id: str
    kind: str
    compensation: str
    exchange: str
    routing_key: str
    attempt: int
    resends: int
    reason: str


OnAlert = Callable[[Alert], object]


def raise_alert(alert: Alert, on_alert: OnAlert | None) -> None:
    """Log an alert and call `on_alert`; an error of the callee is logged and changes nothing."""
    log.error("receipt.alert", extra=asdict(alert))
    if on_alert is None:
        return
    try:
        on_alert(alert)
    except Exception as trouble:
        # in any case the row says that it failed, and the alert is logged
        facts = {"business_id": alert.business_id, "reason": error_summary(trouble), "raised": error_trace(trouble)}
        log.error("receipt.alert_failed", extra=facts)


@dataclass(frozen=True, slots=True)
class ChasingSettings:
    """The settings of a chaser; the defaults suit most programs."""

    resends: int = 3
    """How often a message with an overdue receipt is resent before it is compensated; 0: never."""

    compensations: int = 5
    """How often a confirmation or a reversal is sent in all before the message fails."""

    batch_rows: int = 100
    """Overdue rows in one transaction."""

    poll_s: float = 1.0
    """How often the table is read."""

    lease_s: float = 10.0
    """How long a dead chaser keeps its lease; a live one renews it three times within."""

    backoff_s: float = 1.0
    """The pause after database errors."""

    def __post_init__(self) -> None:
        if self.resends < 0 or self.compensations < 1 or self.batch_rows < 1:
            raise SettingsError("a chaser needs resends of 0 or more, and compensations and batch_rows of 1 or more")
        if not 0 < self.lease_s <= LEASE_S_MAX:
            raise SettingsError(f"lease_s is above 0 and at most {LEASE_S_MAX:g}, not {self.lease_s:g}")
        if min(self.poll_s, self.backoff_s) <= 0:
            raise SettingsError("poll_s and backoff_s are above 0")


class AwaitedRow(NamedTuple):
    """The columns of an overdue or refused row."""

    id: int
    business_id: str
    kind: str
    status: str
    resends: int
    compensation: str
    settles: str | None
    last_error: str | None


class OverdueStep(Enum):
    RESEND = "resend"
    COMPENSATE = "compensate"
    FAIL = "fail"


def next_overdue_step(row: AwaitedRow, settings: ChasingSettings) -> OverdueStep:
    """The step for a row."""
    is_refused = row.status == "refused"
    if not is_refused and row.resends < _resends_max(row, settings):
        return OverdueStep.RESEND
    if (
        row.settles is not None
        or row.compensation not in COMPENSATIONS
        or (is_refused and row.compensation == "confirm")
    ):
        return OverdueStep.FAIL
    return OverdueStep.COMPENSATE


def failure_reason(row: AwaitedRow) -> str:
    """The reason in the alert."""
    if row.status == "refused":
        return row.last_error or "it was refused"
    known = row.compensation in ("", *COMPENSATIONS)
    unknown = "" if known else f", and its compensation is {row.compensation!r}, which is none"
    return f"no receipt came after {row.resends} resends{unknown}"


def _resends_max(row: AwaitedRow, settings: ChasingSettings) -> int:
    return settings.resends if row.settles is None else settings.compensations - 1


LEASE = "receipts"
"""The name of the chaser's lease."""

ROW = OUTBOX.c
CLOCK_TOLERANCE_S = 5.0

_ALERT_COLUMNS = [ROW[each.name] for each in fields(Alert) if each.name != "reason"] + [ROW.id, ROW.last_error]
_READ = [ROW[name] for name in AwaitedRow._fields]
# literals: a partial index is used only if the statement repeats its condition
_SENT, _REFUSED, _FAILED = (ROW.status == literal_column(f"'{word}'") for word in ("sent", "refused", "failed"))
_BEING_SETTLED = ROW.status.in_([literal_column("'confirming'"), literal_column("'reversing'")])
_AWAITED = and_(_SENT, ROW.due_at.is_not(None))


class Chased(NamedTuple):
    """How many rows were handled, by step."""

    resent: int = 0
    compensated: int = 0
    failed: int = 0

    @property
    def rows(self) -> int:
        return sum(self)


class OverdueRows:
    """The table as one chaser uses it."""

    def __init__(self, claim: LeaseHolder, settings: ChasingSettings) -> None:
        self._claim = claim
        self._settings = settings

    def chase(self) -> Chased | None:
        """Handle some overdue or refused rows; None if the lease is lost, and then nothing is written."""
        with self._claim.transaction() as connection:
            if connection is None:
                return None
            _renew_due_times(connection, self._settings.batch_rows)
            rows = [(row, next_overdue_step(row, self._settings)) for row in self._rows(connection)]
            if rows:
                notify_relay(connection)
            resent = _resend(connection, [row.id for row, step in rows if step is OverdueStep.RESEND])
            steps = [_apply_step(connection, row, step) for row, step in rows if step is not OverdueStep.RESEND]
            failed = steps.count(OverdueStep.FAIL) + _fail_stranded(connection, self._settings.batch_rows)
        return Chased(resent, steps.count(OverdueStep.COMPENSATE), failed)

    def alerts(self) -> list[tuple[int, Alert]] | None:
        """Failed rows without an alert, with their ids; None if the lease is lost."""
        with self._claim.transaction() as connection:
            if connection is None:
                return None
            awaited = or_(ROW.wants_receipt, ROW.sent_at.is_not(None))
            unalerted = select(*_ALERT_COLUMNS).where(_FAILED, ROW.alerted_at.is_(None), awaited).order_by(ROW.id)
            return [(row.id, _alert(row)) for row in connection.execute(unalerted.limit(self._settings.batch_rows))]

    def mark_alerted(self, ids: Sequence[int]) -> bool:
        """Whether the lease was still held."""
        with self._claim.transaction() as connection:
            if connection is not None:
                alerted = update(OUTBOX).where(ROW.id.in_(ids), _FAILED).values(alerted_at=database_time())
                connection.execute(alerted)
            return connection is not None

    def _rows(self, connection: Connection) -> Iterator[AwaitedRow]:
        """Some overdue or refused rows, locked with the messages that they confirm or reverse."""
        found: list[int] = []
        settled: list[str] = []
        for status in (_SENT, _REFUSED):
            due = select(ROW.id, ROW.settles).where(status, ROW.due_at <= database_time()).order_by(ROW.due_at)
            for row in connection.execute(due.limit(self._settings.batch_rows - len(found))):
                found.append(row.id)
                settled += [row.settles] if row.settles is not None else []
        concerned = or_(ROW.id.in_(found), ROW.business_id.in_(settled))
        locked = connection.execute(select(*_READ).where(concerned).order_by(ROW.id).with_for_update()).all()
        ids = set(found)
        # a receipt may have arrived before the lock
        return (AwaitedRow._make(row) for row in locked if row.id in ids and row.status in ("sent", "refused"))


def _resend(connection: Connection, ids: Sequence[int]) -> int:
    """Make rows pending again with one statement; returns how many."""
    if ids:
        again = {"status": "pending", "due_at": None, "resends": ROW.resends + 1}
        connection.execute(update(OUTBOX).where(ROW.id.in_(ids)).values(again))
    return len(ids)


def _apply_step(connection: Connection, row: AwaitedRow, step: OverdueStep) -> OverdueStep:
    """Compensate or fail a row; returns the step that was taken."""
    reason = failure_reason(row)
    if step is OverdueStep.COMPENSATE:
        try:
            write_compensation(connection, row.business_id, "confirm" if row.compensation == "confirm" else "reverse")
        except CannotConvert as trouble:
            reason = f"{reason}, and it cannot be compensated for: {trouble}"
        else:
            return step
    being = "confirming" if row.kind == CONFIRMATION else "reversing"
    message = and_(ROW.business_id == (row.settles or ""), ROW.status == being)
    # the message is not marked as refused: a receiver that refuses the confirmation may have done it and pruned its row
    has_message = _fail(connection, message, f"{row.business_id}: {reason}") > 0
    _fail(connection, ROW.id == row.id, reason, alerted=has_message)
    return OverdueStep.FAIL


def _fail(connection: Connection, which: ColumnElement[bool], reason: str, *, alerted: bool = False) -> int:
    """Mark rows as failed and return how many. `alerted`: the alert is raised for another row."""
    alerted_at = database_time() if alerted else None
    # it must not hold back later rows, even if it was never sent
    sent_at = func.coalesce(ROW.sent_at, database_time())
    values = {"status": "failed", "sent_at": sent_at, "due_at": None, "last_error": reason, "alerted_at": alerted_at}
    return connection.execute(update(OUTBOX).where(which).values(values)).rowcount


def _fail_stranded(connection: Connection, limit: int) -> int:
    """Fail messages whose confirmation or reversal the relay has marked as failed."""
    own = OUTBOX.alias("own")
    goes_with = or_(
        and_(ROW.status == literal_column("'confirming'"), own.c.kind == CONFIRMATION),
        and_(ROW.status == literal_column("'reversing'"), own.c.kind == REVERSAL),
    )
    pairs = select(ROW.id, own.c.id.label("own_id"), own.c.business_id, own.c.last_error).where(
        _BEING_SETTLED, own.c.settles == ROW.business_id, own.c.status == "failed", goes_with
    )
    found = connection.execute(pairs.order_by(ROW.id).limit(limit).with_for_update(of=OUTBOX)).all()
    for pair in found:
        _fail(connection, ROW.id == pair.id, f"{pair.business_id}: {pair.last_error}")
        alerted = update(OUTBOX).where(ROW.id == pair.own_id).values(alerted_at=database_time())
        connection.execute(alerted)
    return len(found)


def _renew_due_times(connection: Connection, limit: int) -> None:
    now = connection.execute(select(database_time())).scalar_one()
    last = select(ROW.id, ROW.sent_at, ROW.due_at).where(_AWAITED).order_by(ROW.due_at.desc()).limit(limit)
    rows = connection.execute(last).all()
    ahead = [row for row in rows if row.sent_at is not None and (row.sent_at - now).total_seconds() > CLOCK_TOLERANCE_S]
    if not ahead:
        return
    # skip a row that got a receipt or a new due time meanwhile
    as_read = and_(ROW.id == bindparam("this"), _SENT, ROW.due_at == bindparam("was"))
    anew = update(OUTBOX).where(as_read).values(sent_at=now, due_at=bindparam("due"))
    due = [{"this": row.id, "was": row.due_at, "due": now + (row.due_at - row.sent_at)} for row in ahead]
    connection.execute(anew, due)


def _alert(row: Row[Any]) -> Alert:
    return Alert(
        row.business_id,
        row.kind,
        row.compensation,
        row.exchange,
        row.routing_key,
        row.attempt,
        row.resends,
        row.last_error or "",
    )


DONE = "warren.done"


class Chaser:
    """Chases the receipts of one database: `run` until `stop`, or work `once`.

    `resent`, `compensated`, `failed` and `alerts` count since the program began. A chaser runs once; make a new one for
    another run.
    """

    def __init__(
        self, engine: Engine, settings: ChasingSettings | None = None, *, on_alert: OnAlert | None = None
    ) -> None:
        self.resent = 0
        self.compensated = 0
        self.failed = 0
        self.alerts = 0
        self._settings = settings or ChasingSettings()
        self._where = {DATABASE: database_name(engine)}
        self._on_alert = on_alert
        self._claim = LeaseHolder(engine, LEASE, self._settings.lease_s)
        self._overdue = OverdueRows(self._claim, self._settings)
        self._stopped = asyncio.Event()
        self._woken = asyncio.Event()
        self._leading = LeaderLoop(self._claim, log, "chaser", self._woken)

    async def run(self) -> None:
        """Run until `stop`. An unusable database is an error at the start, and later a pause."""
        await asyncio.to_thread(self._claim.check)
        await self._leading.run(self._serve, self._stopped, self._settings.backoff_s)

    def stop(self) -> None:
        """Let `run` return after the current transaction; may be a signal handler of the loop."""
        self._stopped.set()
        self._woken.set()

    async def once(self) -> Chased:
        """Handle all overdue rows, and raise alerts; does nothing if another chaser is active."""
        await asyncio.to_thread(self._claim.check)
        before = Chased(self.resent, self.compensated, self.failed)
        async with self._leading.lead():
            while self._goes_on and await self._round():
                pass
        return Chased(self.resent - before.resent, self.compensated - before.compensated, self.failed - before.failed)

    def measures(self) -> Sequence[Measure]:
        """The counters, and whether this chaser is active."""
        rows = "Rows that this chaser dealt with, by what it did"
        return [
            Measure("warren.client.chaser.rows", "{row}", rows, "counter", self._rows),
            Measure(
                "warren.client.chaser.alerts",
                "{alert}",
                "Alerts that this chaser raised",
                "counter",
                self._alert_points,
            ),
            Measure("warren.client.chaser.leads", "1", "Whether this chaser is the active one", "gauge", self._leads),
        ]

    def _rows(self) -> list[Point]:
        done = {"resent": self.resent, "compensated": self.compensated, "failed": self.failed}
        return [(rows, {**self._where, DONE: name}) for name, rows in done.items()]

    def _alert_points(self) -> list[Point]:
        return [(self.alerts, self._where)]

    def _leads(self) -> list[Point]:
        return [(int(self._leading.leads), self._where)]

    @property
    def _goes_on(self) -> bool:
        return self._leading.leads and not self._stopped.is_set()

    async def _serve(self) -> None:
        while self._goes_on:
            self._woken.clear()
            if not await self._round():
                await wait_for_event(self._woken, self._settings.poll_s)

    async def _round(self) -> bool:
        """Whether there may be more to do."""
        chased = await asyncio.to_thread(self._overdue.chase)
        if chased is None:
            self._leading.lose()
            return False
        self._count(chased)
        return await self._raise_alerts() or chased.rows > 0

    async def _raise_alerts(self) -> bool:
        alerts = await asyncio.to_thread(self._overdue.alerts)
        if alerts is None:
            self._leading.lose()
        if not alerts:
            return False
        for _, alert in alerts:
            await asyncio.to_thread(raise_alert, alert, self._on_alert)
        self.alerts += len(alerts)
        if not await asyncio.to_thread(self._overdue.mark_alerted, [row_id for row_id, _ in alerts]):
            self._leading.lose()
        return True

    def _count(self, chased: Chased) -> None:
        self.resent += chased.resent
        self.compensated += chased.compensated
        self.failed += chased.failed
        if chased.rows:
            log.info("chaser.chased", extra=chased._asdict())
