"""Findings of a reconciliation, corrected through the outbox: rows resent or reversed, or messages added.

A finding is about one business id and names a correction: `resend` a message that the other side lacks, `reverse` one
that it should not have, or `correct` it. The step depends on the row that the outbox has under this id:

| wanted                         | the row                             | what is done                            |
|--------------------------------|-------------------------------------|-----------------------------------------|
| `resend`                       | was sent, is done or failed         | `resent`: the same id, once more        |
|                                | the same, and was written long ago  | nothing: it is `too_old`                |
|                                | is pending, or is being confirmed   | nothing: it is `on_its_way`             |
|                                | is to be reversed                   | nothing: the result is `outdated`       |
| `reverse` what is unexpected   | is to be reversed, or was refused   | `reversed`: as if no receipt had come   |
|                                | counts                              | nothing: the result is `outdated`       |
| any of these                   | is about another row                | nothing: it is `left` to a person       |
|                                | is not there                        | `added`: the finding's own message      |
|                                | the same, and it is long ago        | nothing: it is `too_old`                |
| `reverse` what is unexpected   | the same, and its time is unknown   | nothing: it is `left` to a person       |
| `correct`; `reverse` of a part | any                                 | `added`                                 |

"Long ago" is before the time for which both sides keep their rows. A row that is then in one of them alone may have
been in both; it would be done twice, or reversed though it is right.

A message is `added` only if the finding names a destination; else it is `left` to a person. It has the kind
`correction`, which no ledger counts. If it was added before, it is `resent` or `on_its_way`. If it was sent with
another body, it is `left` too: the old form is wrong, and a second message beside it would be done twice.

Invariants:

1. A batch of findings is one transaction, so a process that is killed has done each finding wholly or not at all.
2. The same finding again makes no second row: the id of a reversal comes from the row it reverses, and the id of an
   added message from the finding. A message sent meanwhile may be sent once more, under its id.
3. A message that the outbox counts is never reversed for a result that does not know of it.

Not here: the findings, and how often one is tried (`warren.pipeline.compensate`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Final, Literal

from sqlalchemy import Connection, Engine, case, func, select

from warren.client.errors import CannotConvert
from warren.client.ledgers.database import CORRECTION, TAKEN_BACK, database_errors, is_own_message, standing_status
from warren.client.machine.publishes import Message
from warren.client.outbox import Outbox
from warren.client.outbox.outbox import REVERSAL
from warren.client.receipts.compensation import compensate
from warren.client.tables import OUTBOX, database_time
from warren.wire.properties import Properties

KEEP: Final = timedelta(days=7)
"""How long inboxes and outboxes keep a row by default."""
SURELY_KEPT: Final = 6 / 7
"""The share of that time in which a resent message surely arrives before its row is pruned, if clocks differ."""
BATCH: Final = 500
"""Rows in one transaction: few, so that other writers do not wait for long."""

CorrectionAction = Literal["resend", "reverse", "correct"]


class CorrectionStep(StrEnum):
    """The step for a finding."""

    RESENT = "resent"
    REVERSED = "reversed"
    ADDED = "added"
    ON_ITS_WAY = "on_its_way"
    OUTDATED = "outdated"
    TOO_OLD = "too_old"
    LEFT = "left"

    @property
    def is_done(self) -> bool:
        """Whether a message is sent."""
        return self in (CorrectionStep.RESENT, CorrectionStep.REVERSED, CorrectionStep.ADDED)


@dataclass(frozen=True, slots=True)
class ReconciliationFinding:
    """A difference under one business id.

    `is_unexpected`: the outbox's side should not have it at all. `message_id`, `body`, `headers`, exchange and routing
    key are those of a message to add. `at` is the time in a ledger, if one has it.
    """

    business_id: str
    action: CorrectionAction
    is_unexpected: bool
    message_id: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    exchange: str = ""
    routing_key: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """The row of the outbox under a business id; the status of its reversal is empty if it has none."""

    status: str
    reversal_status: str = ""
    is_own: bool = True
    written_at: datetime | None = None

    @property
    def is_taken_back(self) -> bool:
        return bool(self.reversal_status) or self.status in TAKEN_BACK


@dataclass(frozen=True, slots=True)
class AddedCorrection:
    """A message that was added for a finding before."""

    status: str
    body: bytes


def decide_correction(
    finding: ReconciliationFinding,
    known: OutboxRecord | None,
    correction: AddedCorrection | None = None,
    kept_since: datetime | None = None,
) -> CorrectionStep:
    """The step for a finding.

    Rows from before `kept_since` may have been pruned by one side. A row without a time counts as such. An unexpected
    id without a time does too, and is left to a person. A missing id without a time and without a row counts as new.
    """
    if finding.action == "correct" or (finding.action == "reverse" and not finding.is_unexpected):
        return _added(finding, correction)
    if known is None:
        is_old = kept_since is not None and finding.at is not None and finding.at < kept_since
        if is_old:
            return CorrectionStep.TOO_OLD
        may_be_forgotten = kept_since is not None and finding.at is None and finding.action == "reverse"
        return CorrectionStep.LEFT if may_be_forgotten else _added(finding, correction)
    if not known.is_own:
        return CorrectionStep.LEFT
    if finding.action == "resend":
        return _sent_again(known, kept_since)
    if not known.is_taken_back:
        return CorrectionStep.OUTDATED
    return CorrectionStep.ON_ITS_WAY if known.reversal_status == "pending" else CorrectionStep.REVERSED


def _sent_again(known: OutboxRecord, kept_since: datetime | None) -> CorrectionStep:
    if known.is_taken_back:
        return CorrectionStep.OUTDATED
    if known.status in ("pending", "confirming"):
        return CorrectionStep.ON_ITS_WAY
    is_old = kept_since is not None and (known.written_at is None or known.written_at < kept_since)
    return CorrectionStep.TOO_OLD if is_old else CorrectionStep.RESENT


def _added(finding: ReconciliationFinding, correction: AddedCorrection | None) -> CorrectionStep:
    if correction is not None:
        if correction.status == "pending":
            return CorrectionStep.ON_ITS_WAY
        return CorrectionStep.RESENT if correction.body == finding.body else CorrectionStep.LEFT
    return CorrectionStep.ADDED if finding.exchange or finding.routing_key else CorrectionStep.LEFT


def preview_corrections(
    engine: Engine, findings: Iterable[ReconciliationFinding], keep: timedelta = KEEP
) -> list[CorrectionStep]:
    """The steps that `apply_corrections` would take now."""
    steps: list[CorrectionStep] = []
    with database_errors(engine), engine.connect() as connection:
        for some in _batches(findings):
            outbox = _looked_up(connection, some, keep, is_locked=False)
            steps += [outbox.step(finding) for finding in some]
    return steps


def apply_corrections(
    engine: Engine, findings: Iterable[ReconciliationFinding], keep: timedelta = KEEP
) -> list[CorrectionStep]:
    """Correct the findings and return their steps. Both sides keep their rows for at least `keep`."""
    steps: list[CorrectionStep] = []
    for some in _batches(findings):
        with database_errors(engine), engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # lock the database, as rows are locked elsewhere: the rows must not change before they are acted upon
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            outbox = _looked_up(connection, some, keep, is_locked=True)
            done = [_done(connection, finding, outbox) for finding in some]
        steps += done
    return steps


def _batches(findings: Iterable[ReconciliationFinding]) -> Iterator[list[ReconciliationFinding]]:
    remaining = iter(findings)
    while some := list(islice(remaining, BATCH)):
        yield some


@dataclass(frozen=True, slots=True)
class _LookedUp:
    """The rows of the outbox for some findings."""

    known: Mapping[str, OutboxRecord]
    corrections: Mapping[str, AddedCorrection]
    kept_since: datetime

    def step(self, finding: ReconciliationFinding) -> CorrectionStep:
        correction = self.corrections.get(finding.message_id)
        return decide_correction(finding, self.known.get(finding.business_id), correction, self.kept_since)


def _looked_up(
    connection: Connection, findings: Sequence[ReconciliationFinding], keep: timedelta, is_locked: bool
) -> _LookedUp:
    ids, row = sorted({finding.business_id for finding in findings}), OUTBOX.c
    # a row without a time of its own has that of its first sending, unless a second sending has overwritten it
    sent_once = case((row.attempt <= 1, row.sent_at))
    written_at = func.coalesce(row.created_at, sent_once, type_=row.created_at.type)
    rows = select(row.business_id, standing_status(), is_own_message(), written_at).where(row.business_id.in_(ids))
    # in one order, so that two processes cannot deadlock
    locked = rows.order_by(row.id).with_for_update() if is_locked else rows
    found = connection.execute(locked).all()
    settling = select(row.settles, row.status).where(row.settles.in_(ids), row.kind == REVERSAL)
    reversals = dict(connection.execute(settling).all())
    known = {each: OutboxRecord(status, reversals.get(each, ""), bool(own), at) for each, status, own, at in found}
    own_ids = sorted({finding.message_id for finding in findings})
    added = select(row.business_id, row.status, row.body).where(row.business_id.in_(own_ids), row.kind == CORRECTION)
    corrections = {each: AddedCorrection(status, body) for each, status, body in connection.execute(added)}
    kept_s = keep.total_seconds() * SURELY_KEPT
    kept_since = connection.execute(select(database_time(-kept_s))).scalar_one()
    return _LookedUp(known, corrections, kept_since)


def _done(connection: Connection, finding: ReconciliationFinding, found: _LookedUp) -> CorrectionStep:
    step, known = found.step(finding), found.known.get(finding.business_id)
    outbox = Outbox(exchange=finding.exchange, routing_key=finding.routing_key)
    if step is CorrectionStep.RESENT:
        is_row_itself = finding.action == "resend" and known is not None
        outbox.resend(connection, finding.business_id if is_row_itself else finding.message_id)
    elif step is CorrectionStep.REVERSED:
        assert known is not None
        return _reversed(connection, finding, known)
    elif step is CorrectionStep.ADDED:
        properties = Properties(content_type="application/json", headers=dict(finding.headers))
        outbox.add(connection, Message(finding.body, properties), business_id=finding.message_id, kind=CORRECTION)
    return step


def _reversed(connection: Connection, finding: ReconciliationFinding, known: OutboxRecord) -> CorrectionStep:
    """Reverse a message. A failed reversal starts again; one that was sent or is done is sent again."""
    try:
        reversal = compensate(connection, finding.business_id, "reverse")
    except CannotConvert:
        reversal = None
    if reversal is None:
        return CorrectionStep.LEFT
    if known.reversal_status in ("sent", "done"):
        Outbox().resend(connection, reversal)
    return CorrectionStep.REVERSED
