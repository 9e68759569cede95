"""The outbox table as the relay uses it: publishable rows, outcomes, cleaning.

**Publishable rows** are found by their status and never by a position: in PostgreSQL a transaction with a lower id may
commit after one with a higher id, and its row must be seen then. Within a key, rows that were never sent wait behind
one that failed or is delayed. A row that was sent before is a repeat; its order does not matter, so it does not wait
and nothing waits for it. The same holds for confirmations and reversals, because the row that everything waits for may
be the one to be reversed. The `due_at` of a repeat is the date of its receipt and no delay, unless a later publish
failed and set `last_error`. No delay is longer than `BACKOFF_S_MAX`: a row with a longer one got it before the clock
was set back, and is publishable.

**A batch** has a limit of rows and one of bytes. Sizes are read before the rows, because drivers load a whole result
into memory before the first row can be read.

**Outcomes** are written in a transaction that renews the lease first. If the fence has moved nothing is written. A row
that is no longer pending is left as it is, because a receipt may have arrived before the confirm was recorded.

All of it is synchronous; the relay calls it in threads.

Not here: publishing and waiting (`outbox.relay`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, takewhile

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    Update,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)

from warren.client.errors import SettingsError
from warren.client.outbox.publisher import PendingRow, PublishedRow, RowVerdict
from warren.client.tables import LEASE_S_MAX, OUTBOX, database_time
from warren.client.tables.columns import storable_text
from warren.client.tables.leases import LeaseHolder

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """The settings of a relay; the defaults suit most programs."""

    batch_rows: int = 1000
    """Rows that are read, published and marked together; fewer if they exceed 16 MiB."""

    tries: int = 5
    """How often an unroutable or unacceptable row is tried before it is failed."""

    backoff_s: float = 1.0
    """The delay before a row that was not accepted is tried again; doubled each time, up to a minute."""

    lease_s: float = 10.0
    """How long a dead relay keeps its lease; a live one renews it three times within."""

    publish_timeout_s: float = 10.0
    """How long a confirm may take before the row counts as undecided and is sent again."""

    poll_s: float = 0.2
    """How often the table is read without notifications."""

    listening_poll_s: float = 5.0
    """How often the table is read with PostgreSQL's notifications, in case one was missed."""

    keep_s: float | None = 7 * DAY_S
    """How long finished rows are kept, and their business ids refused a second time; None: for ever."""

    receipt_within_s: float = 300.0
    """When a receipt is due after the first sending, for rows that want one."""

    resent_receipt_within_s: float = 120.0
    """When it is due after a resend, and after every sending of a confirmation or a reversal."""

    def __post_init__(self) -> None:
        if self.batch_rows < 1 or self.tries < 1:
            raise SettingsError("a relay needs batch_rows and tries of 1 or more")
        if not 0 < self.lease_s <= LEASE_S_MAX:
            raise SettingsError(f"lease_s is above 0 and at most {LEASE_S_MAX:g}, not {self.lease_s:g}")
        if min(self.backoff_s, self.publish_timeout_s, self.poll_s, self.listening_poll_s) <= 0:
            raise SettingsError("backoff_s, publish_timeout_s, poll_s and listening_poll_s are above 0")
        if min(self.receipt_within_s, self.resent_receipt_within_s) < 0:
            raise SettingsError("receipt_within_s and resent_receipt_within_s are 0 or above")


LEASE = "outbox"
"""The name of the relay's lease."""

BACKOFF_S_MAX = 60.0
DOUBLINGS_MAX = 16
CLEANED_ROWS_MAX = 1000
BATCH_BYTES_MAX = 16 << 20

ROW = OUTBOX.c
_READ = [ROW[name] for name in PendingRow._fields]
_THESE = ROW.id.in_(bindparam("ids", expanding=True, literal_execute=True))
_WHOLE_ROWS = select(*_READ).where(_THESE).order_by(ROW.id)
# literals: a partial index is used only if the statement repeats its condition
_STILL_PENDING = ROW.status == literal_column("'pending'")
_FAILED = ROW.status == literal_column("'failed'")


class OutboxTable:
    """The table as one relay uses it."""

    def __init__(self, engine: Engine, claim: LeaseHolder, settings: RelaySettings) -> None:
        self._engine = engine
        self._claim = claim
        self._settings = settings
        self._looked_at: datetime | None = None

    def rows(self) -> list[PendingRow]:
        """The first publishable rows by id: at least one, and at most a batch."""
        with self._engine.connect() as connection:
            self._looked_at = connection.execute(select_time_without_sort(connection.dialect.name)).scalar_one()
            sizes = connection.execute(select_publishable(self._looked_at, self._settings.batch_rows)).all()
            ids = _ids_of_batch([(row.id, row.size) for row in sizes])
            return [PendingRow._make(row) for row in connection.execute(_WHOLE_ROWS, {"ids": ids})] if ids else []

    def settle(self, published: Sequence[PublishedRow]) -> bool:
        """Record outcomes; False if the lease is lost, and then nothing is written."""
        with self._claim.transaction() as connection:
            if connection is None:
                return False
            self._mark_sent(connection, [each.row.id for each in published if each.verdict is RowVerdict.SENT])
            for each in published:
                if each.verdict is RowVerdict.REFUSED:
                    self._mark_refused(connection, each)
                elif each.verdict is not RowVerdict.SENT:
                    self._put_back(connection, each)
        return True

    def next_due_s(self) -> float | None:
        """How long until a delayed row is publishable."""
        if self._looked_at is None:
            return None
        waiting = and_(_STILL_PENDING, ROW.due_at > self._looked_at, ROW.due_at <= _longest_pause(self._looked_at))
        with self._engine.connect() as connection:
            due_at, now = connection.execute(select(func.min(ROW.due_at), database_time()).where(waiting)).one()
        return None if due_at is None else max((due_at - now).total_seconds(), 0.0)

    def clean(self) -> int:
        """Delete some finished old rows; returns how many."""
        if self._settings.keep_s is None:
            return 0
        with self._claim.transaction() as connection:
            if connection is None:
                return 0
            connection.execute(select_time_without_sort(connection.dialect.name))
            return sum(_clean(connection, through, self._settings.keep_s) for through in _FINISHED)

    def _mark_sent(self, connection: Connection, ids: list[int]) -> None:
        if not ids:
            return
        first, again = self._settings.receipt_within_s, self._settings.resent_receipt_within_s
        receipt_due = case(
            (~ROW.wants_receipt, null()),
            (and_(ROW.sent_at.is_(None), ROW.settles.is_(None)), database_time(first)),
            else_=database_time(again),
        )
        sent = update(OUTBOX).where(_THESE, _STILL_PENDING)
        values = {"status": "sent", "attempt": ROW.attempt + 1, "refusals": 0, "last_error": None}
        now = database_time()
        # a row inserted in plain SQL may have no time
        dates = {"sent_at": now, "due_at": receipt_due, "created_at": func.coalesce(ROW.created_at, now)}
        connection.execute(sent.values(**values, **dates), {"ids": ids})

    def _mark_refused(self, connection: Connection, published: PublishedRow) -> None:
        refusals = published.row.refusals + 1
        failed = refusals >= self._settings.tries
        pause_s = self._pause_s(published.row.refusals)
        connection.execute(
            _marked(published).values(
                status="failed" if failed else "pending",
                refusals=0 if failed else refusals,
                due_at=None if failed else database_time(pause_s),
                alerted_at=None,
            )
        )

    def _put_back(self, connection: Connection, published: PublishedRow) -> None:
        """Delay a row that failed because of the broker or the connection; it is tried without limit."""
        pause_s = self._pause_s(published.row.attempt)
        connection.execute(_marked(published).values(due_at=database_time(pause_s)))

    def _pause_s(self, times_before: int) -> float:
        doublings = min(times_before, DOUBLINGS_MAX)
        return min(self._settings.backoff_s * (1 << doublings), BACKOFF_S_MAX)


def _marked(published: PublishedRow) -> Update:
    """Count a publish that failed."""
    row = update(OUTBOX).where(ROW.id == published.row.id, _STILL_PENDING)
    return row.values(attempt=ROW.attempt + 1, last_error=storable_text(str(published.trouble)))


def select_time_without_sort(dialect: str) -> Select[datetime]:
    """Select the time, and tell PostgreSQL not to sort all rows for each batch.

    PostgreSQL sorts while its statistics are out of date. Reading by an index in order costs only the rows of the
    batch. The setting lasts until the transaction ends.
    """
    time = select(database_time())
    return time.where(func.set_config("enable_sort", "off", true()) == "off") if dialect == "postgresql" else time


def select_publishable(now: datetime, limit: int) -> Select[int, int]:
    """The ids and sizes of publishable rows.

    The time is a parameter, because SQLite reads the clock anew for every row: a later row of a key could be due before
    an earlier one.
    """
    # the condition of the index: failed or delayed, and never sent
    held_perhaps = and_(ROW.sent_at.is_(None), or_(_FAILED, ROW.due_at.is_not(None)), ROW.settles.is_(None))
    held = select(ROW.ordering_key).where(
        held_perhaps,
        or_(_FAILED, and_(_STILL_PENDING, ROW.due_at > now, ROW.due_at <= _longest_pause(now))),
        ROW.ordering_key != "",
    )
    # written so that no index on `due_at` fits: the rows must be read in order
    not_before = func.coalesce(ROW.due_at, now)
    due = or_(
        not_before <= now,
        not_before > _longest_pause(now),
        and_(ROW.sent_at.is_not(None), ROW.last_error.is_(None)),
    )
    free = or_(
        ROW.ordering_key == "", ROW.sent_at.is_not(None), ROW.settles.is_not(None), ROW.ordering_key.not_in(held)
    )
    size = (func.length(ROW.body) + func.length(ROW.properties)).label("size")
    return select(ROW.id, size).where(_STILL_PENDING, due, free).order_by(ROW.id).limit(limit)


def _longest_pause(now: datetime) -> datetime:
    return now + timedelta(seconds=BACKOFF_S_MAX)


def _ids_of_batch(sizes: Sequence[tuple[int, int]]) -> list[int]:
    """The ids of the first rows that fit a batch."""
    reached = accumulate(size for _, size in sizes)
    fitting = list(takewhile(lambda so_far: so_far <= BATCH_BYTES_MAX, reached))
    return [row_id for row_id, _ in sizes[: max(len(fitting), 1)]]


_FINISHED: tuple[ColumnElement[bool], ...] = (
    and_(ROW.status == "sent", ~ROW.wants_receipt),
    ROW.status == "done",
    ROW.status == "reversed",
)


def _clean(connection: Connection, through: ColumnElement[bool], keep_s: float) -> int:
    """Only the age of the first row is checked, so finding nothing is cheap."""
    ended_at = func.coalesce(ROW.done_at, ROW.sent_at, ROW.created_at)
    first = (
        select(ROW.id, ended_at.label("ended_at")).where(through).order_by(ROW.id).limit(CLEANED_ROWS_MAX).subquery()
    )
    old = select(first.c.id).where(first.c.ended_at < database_time(-keep_s))
    return connection.execute(delete(OUTBOX).where(ROW.id.in_(old))).rowcount
