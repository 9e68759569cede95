"""The table as the chaser sees it: rows of which nobody has heard in time, and what is written about them.

Every change is made in a transaction that renews the lease first; if that is lost nothing is written. A round is one
transaction, so a chaser that is killed leaves it done or not begun. Receipts that come in meanwhile wait for it, or it
for them: rows are locked before they are judged, messages before what confirms or reverses them.

**Told at least once.** `alerted_at` is written after the alert was raised. A chaser that is killed between the two has
its successor raise it again.

**A clock that was set back** leaves rows that were sent in the future, and would wait for so much longer. Of those that
are due last, such rows are dated anew, with the time that they had.

Not here: what is done (`receipts.deciding`), when (`receipts.chaser`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, func, literal_column, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from warren.client.errors import CannotConvert
from warren.client.outbox.adding import tell_relay
from warren.client.outbox.kinds import CONFIRMATION, REVERSAL
from warren.client.receipts.alerts import Alert
from warren.client.receipts.compensating import write_compensation
from warren.client.receipts.deciding import AwaitedRow, Step, next_step, why_failed
from warren.client.receipts.settings import ChasingSettings
from warren.client.tables import OUTBOX, database_time
from warren.client.tables.claiming import Claim

LEASE = "receipts"
"""The claim under which overdue rows are changed."""

ROW = OUTBOX.c
CLOCK_TOLERANCE_S = 5.0

_TOLD = [ROW[each.name] for each in fields(Alert) if each.name != "reason"] + [ROW.id, ROW.last_error]
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


class Overdue:
    """One chaser's side of the table."""

    def __init__(self, claim: Claim, settings: ChasingSettings) -> None:
        self._claim = claim
        self._settings = settings

    def chase(self) -> Chased | None:
        """Deal with some rows that are overdue or refused; None, and nothing is written, if the lease is lost."""
        with self._claim.transaction() as connection:
            if connection is None:
                return None
            _date_anew(connection, self._settings.batch_rows)
            rows = [(row, next_step(row, self._settings)) for row in self._rows(connection)]
            if rows:
                tell_relay(connection)
            resent = _resend(connection, [row.id for row, step in rows if step is Step.RESEND])
            steps = [_deal_with(connection, row, step) for row, step in rows if step is not Step.RESEND]
            failed = steps.count(Step.FAIL) + _fail_stranded(connection, self._settings.batch_rows)
        return Chased(resent, steps.count(Step.COMPENSATE), failed)

    def alerts(self) -> list[tuple[int, Alert]] | None:
        """Rows that failed and nobody was told of, with their ids; None if the lease is lost."""
        with self._claim.transaction() as connection:
            if connection is None:
                return None
            awaited = or_(ROW.wants_receipt, ROW.sent_at.is_not(None))
            untold = select(*_TOLD).where(_FAILED, ROW.alerted_at.is_(None), awaited).order_by(ROW.id)
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


def _deal_with(connection: Connection, row: AwaitedRow, step: Step) -> Step:
    """Compensate for it or let it fail; what it came to."""
    reason = why_failed(row)
    if step is Step.COMPENSATE:
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
    return Step.FAIL


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


def _date_anew(connection: Connection, limit: int) -> None:
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
