"""The process that goes after receipts that are overdue: one is active among as many as there are.

    chase    rows that are overdue or refused: sent again, compensated for, or failed, a batch in a transaction
    tell     of rows that failed and nobody was told of

It works in the database alone. What is to be sent again the relay sends, woken as by any other row. All that it goes by
is in the rows, so it may be stopped or killed at any point, and another goes on.

Not here: whose turn it is (`tables.leading`), the SQL (`receipts.overdue`), the rules (`receipts.deciding`).

The table as the chaser sees it: rows of which nobody has heard in time, and what is written about them.

Every change is made in a transaction that renews the lease first; if that is lost nothing is written. A round is one
transaction, so a chaser that is killed leaves it done or not begun. Receipts that come in meanwhile wait for it, or it
for them: rows are locked before they are judged, messages before what confirms or reverses them.

**Told at least once.** `alerted_at` is written after the alert was raised. A chaser that is killed between the two has
its successor raise it again.

**A clock that was set back** leaves rows that were sent in the future, and would wait for so much longer. Of those that
are due last, such rows are dated anew, with the time that they had.

Not here: what is done (`receipts.deciding`), when (`receipts.chaser`).

What is done about a row whose receipt is overdue, or which its receiver has refused.

    message                  overdue: sent again, `resends` times; then, or if refused: compensated for, or failed.
                             To confirm what was refused is of no use
    confirmation, reversal   overdue: sent again, until it was sent `compensations` times; then, or if refused: failed

Not here: doing it (`receipts.overdue`).

Somebody is told: a message is `failed`, and nothing more is done about it.

Not here: how it came to that (`receipts.deciding`), which rows nobody was told of (`receipts.overdue`).

How long to wait for receipts, and how often to try.

When a receipt is due after each sending is for the relay to say, which knows when that was: `receipt_within_s` and
`resent_receipt_within_s` of the `RelaySettings`.
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
    """A message of which somebody has to find out what became of it."""

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
    """Log it and call; what the callee raises is logged, and changes nothing."""
    log.error("receipt.alert", extra=asdict(alert))
    if on_alert is None:
        return
    try:
        on_alert(alert)
    except Exception as trouble:
        # whatever it is, the message's row says that it failed, and has been logged
        facts = {"business_id": alert.business_id, "reason": error_summary(trouble), "raised": error_trace(trouble)}
        log.error("receipt.alert_failed", extra=facts)


@dataclass(frozen=True, slots=True)
class ChasingSettings:
    """What may be chosen; the defaults suit most."""

    resends: int = 3
    """How often a message is sent again when its receipt is overdue, before it is compensated for; 0: never."""

    compensations: int = 5
    """How often a confirmation or a reversal is sent in all, before somebody has to look."""

    batch_rows: int = 100
    """Overdue rows that are dealt with in one transaction."""

    poll_s: float = 1.0
    """How often the table is looked at."""

    lease_s: float = 10.0
    """How long a chaser that died keeps the others waiting; it is renewed three times within."""

    backoff_s: float = 1.0
    """After trouble with the database."""

    def __post_init__(self) -> None:
        if self.resends < 0 or self.compensations < 1 or self.batch_rows < 1:
            raise SettingsError("a chaser needs resends of 0 or more, and compensations and batch_rows of 1 or more")
        if not 0 < self.lease_s <= LEASE_S_MAX:
            raise SettingsError(f"lease_s is above 0 and at most {LEASE_S_MAX:g}, not {self.lease_s:g}")
        if min(self.poll_s, self.backoff_s) <= 0:
            raise SettingsError("poll_s and backoff_s are above 0")


class AwaitedRow(NamedTuple):
    """What is read of a row of which nobody has heard, or nothing good."""

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
    """What is done about it now."""
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
    """For whoever has to look."""
    if row.status == "refused":
        return row.last_error or "it was refused"
    known = row.compensation in ("", *COMPENSATIONS)
    unknown = "" if known else f", and its compensation is {row.compensation!r}, which is none"
    return f"no receipt came after {row.resends} resends{unknown}"


def _resends_max(row: AwaitedRow, settings: ChasingSettings) -> int:
    return settings.resends if row.settles is None else settings.compensations - 1


LEASE = "receipts"
"""The claim under which overdue rows are changed."""

ROW = OUTBOX.c
CLOCK_TOLERANCE_S = 5.0

_ALERT_COLUMNS = [ROW[each.name] for each in fields(Alert) if each.name != "reason"] + [ROW.id, ROW.last_error]
_READ = [ROW[name] for name in AwaitedRow._fields]
# constants, for an index that has only such rows is of use to a statement that says so
_SENT, _REFUSED, _FAILED = (ROW.status == literal_column(f"'{word}'") for word in ("sent", "refused", "failed"))
_BEING_SETTLED = ROW.status.in_([literal_column("'confirming'"), literal_column("'reversing'")])
_AWAITED = and_(_SENT, ROW.due_at.is_not(None))


class Chased(NamedTuple):
    """How many rows were dealt with, and how."""

    resent: int = 0
    compensated: int = 0
    failed: int = 0

    @property
    def rows(self) -> int:
        return sum(self)


class OverdueRows:
    """One chaser's side of the table."""

    def __init__(self, claim: LeaseHolder, settings: ChasingSettings) -> None:
        self._claim = claim
        self._settings = settings

    def chase(self) -> Chased | None:
        """Deal with some rows that are overdue or refused; None, and nothing is written, if the lease is lost."""
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
        """Rows that failed and nobody was told of, with their ids; None if the lease is lost."""
        with self._claim.transaction() as connection:
            if connection is None:
                return None
            awaited = or_(ROW.wants_receipt, ROW.sent_at.is_not(None))
            untold = select(*_ALERT_COLUMNS).where(_FAILED, ROW.alerted_at.is_(None), awaited).order_by(ROW.id)
            return [(row.id, _alert(row)) for row in connection.execute(untold.limit(self._settings.batch_rows))]

    def mark_told(self, ids: Sequence[int]) -> bool:
        """Whether the lease was still there."""
        with self._claim.transaction() as connection:
            if connection is not None:
                told = update(OUTBOX).where(ROW.id.in_(ids), _FAILED).values(alerted_at=database_time())
                connection.execute(told)
            return connection is not None

    def _rows(self, connection: Connection) -> Iterator[AwaitedRow]:
        """Some that are overdue or refused, locked along with the messages that they confirm or reverse."""
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
        # a receipt may have come in before the lock
        return (AwaitedRow._make(row) for row in locked if row.id in ids and row.status in ("sent", "refused"))


def _resend(connection: Connection, ids: Sequence[int]) -> int:
    """Have them sent again, all by one statement; how many it were."""
    if ids:
        again = {"status": "pending", "due_at": None, "resends": ROW.resends + 1}
        connection.execute(update(OUTBOX).where(ROW.id.in_(ids)).values(again))
    return len(ids)


def _apply_step(connection: Connection, row: AwaitedRow, step: OverdueStep) -> OverdueStep:
    """Compensate for it or let it fail; what it came to."""
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
    # the message is not marked as refused: whoever will not have it confirmed may have done it, and forgotten
    has_message = _fail(connection, message, f"{row.business_id}: {reason}") > 0
    _fail(connection, ROW.id == row.id, reason, is_told=has_message)
    return OverdueStep.FAIL


def _fail(connection: Connection, which: ColumnElement[bool], reason: str, *, is_told: bool = False) -> int:
    """How many rows it were. `is_told`: somebody is told of another row in its place."""
    alerted_at = database_time() if is_told else None
    # it is given up, and is to hold back nobody, even if it was never sent
    sent_at = func.coalesce(ROW.sent_at, database_time())
    values = {"status": "failed", "sent_at": sent_at, "due_at": None, "last_error": reason, "alerted_at": alerted_at}
    return connection.execute(update(OUTBOX).where(which).values(values)).rowcount


def _fail_stranded(connection: Connection, limit: int) -> int:
    """Messages whose confirmation or reversal could not be sent: the relay has marked it as failed."""
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
        told = update(OUTBOX).where(ROW.id == pair.own_id).values(alerted_at=database_time())
        connection.execute(told)
    return len(found)


def _renew_due_times(connection: Connection, limit: int) -> None:
    now = connection.execute(select(database_time())).scalar_one()
    last = select(ROW.id, ROW.sent_at, ROW.due_at).where(_AWAITED).order_by(ROW.due_at.desc()).limit(limit)
    rows = connection.execute(last).all()
    ahead = [row for row in rows if row.sent_at is not None and (row.sent_at - now).total_seconds() > CLOCK_TOLERANCE_S]
    if not ahead:
        return
    # a receipt may have come in meanwhile, or somebody has dated it: then it is left as it is
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
    """Chases the receipts of one database; `run` until `stop`, or look `once`.

    `resent`, `compensated`, `failed` and `alerts` count since the program began. A chaser runs once: for another run
    make another one.
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
        """Until `stop`. A database that cannot be reached or used at the start is an error, later a pause."""
        await asyncio.to_thread(self._claim.check)
        await self._leading.run(self._serve, self._stopped, self._settings.backoff_s)

    def stop(self) -> None:
        """Have `run` return when what is in hand is written down; may be a signal's handler in the loop."""
        self._stopped.set()
        self._woken.set()

    async def once(self) -> Chased:
        """Deal with all that is overdue now, and tell of what failed; none if another chaser is active."""
        await asyncio.to_thread(self._claim.check)
        before = Chased(self.resent, self.compensated, self.failed)
        async with self._leading.lead():
            while self._goes_on and await self._round():
                pass
        return Chased(self.resent - before.resent, self.compensated - before.compensated, self.failed - before.failed)

    def measures(self) -> Sequence[Measure]:
        """What the counts say, and whether it is the active one."""
        rows = "Rows that this chaser dealt with, by what it did"
        return [
            Measure("warren.client.chaser.rows", "{row}", rows, "counter", self._rows),
            Measure("warren.client.chaser.alerts", "{alert}", "Alerts that this chaser raised", "counter", self._told),
            Measure("warren.client.chaser.leads", "1", "Whether this chaser is the active one", "gauge", self._leads),
        ]

    def _rows(self) -> list[Point]:
        done = {"resent": self.resent, "compensated": self.compensated, "failed": self.failed}
        return [(rows, {**self._where, DONE: name}) for name, rows in done.items()]

    def _told(self) -> list[Point]:
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
        return await self._tell() or chased.rows > 0

    async def _tell(self) -> bool:
        alerts = await asyncio.to_thread(self._overdue.alerts)
        if alerts is None:
            self._leading.lose()
        if not alerts:
            return False
        for _, alert in alerts:
            await asyncio.to_thread(raise_alert, alert, self._on_alert)
        self.alerts += len(alerts)
        if not await asyncio.to_thread(self._overdue.mark_told, [row_id for row_id, _ in alerts]):
            self._leading.lose()
        return True

    def _count(self, chased: Chased) -> None:
        self.resent += chased.resent
        self.compensated += chased.compensated
        self.failed += chased.failed
        if chased.rows:
            log.info("chaser.chased", extra=chased._asdict())
