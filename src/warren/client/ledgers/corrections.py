"""What a reconciliation found, set right through the outbox: rows that are sent again or taken back, or messages more.

A finding is about one business id, and says what is wanted: `resend` what the other side lacks, `reverse` what it has
and should not, or `correct` it. What is done depends on the row that the outbox has under this id:

| wanted                         | the row                             | what is done                            |
|--------------------------------|-------------------------------------|-----------------------------------------|
| `resend`                       | was sent, is done or failed         | `resent`: the same id, once more        |
|                                | the same, and was written long ago  | nothing: it is `too_old`                |
|                                | is pending, or is being confirmed   | nothing: it is `on_its_way`             |
|                                | is to be taken back                 | nothing: the result is `outdated`       |
| `reverse` what is unexpected   | is to be taken back, or was refused | `reversed`: as if no receipt had come   |
|                                | counts                              | nothing: the result is `outdated`       |
| any of these                   | is about another row                | nothing: it is `left` to somebody       |
|                                | is not there                        | `added`: the finding's own message      |
|                                | the same, and it is long ago        | nothing: it is `too_old`                |
| `reverse` what is unexpected   | the same, and nobody knows when     | nothing: it is `left` to somebody       |
| `correct`; `reverse` of a part | whatever it is                      | `added`                                 |

Long ago is what the other side may have forgotten, or the outbox itself: what is then in one of them alone may have
been in both, and would be done twice, or taken back though it is right.

A message is `added` only if the finding says where it goes; else it is `left` to somebody. It is of the kind
`correction`, which no ledger counts. If it was added before, it is `resent`, or `on_its_way`. If it went out with
another body, it is `left` as well: its old form is wrong, and beside the old one a second would be done twice.

Invariants:

1. A few hundred findings are one transaction: whoever is killed has done each of them wholly or not at all.
2. The same finding again makes no second row: the id of a reversal is that of the row it reverses, and that of a
   message more is the finding's. What was sent meanwhile may be sent once more, under its id.
3. Nothing that the outbox counts is ever taken back for a result that does not know of it.

Not here: which findings there are, and how often one is tried (`warren.pipeline.compensate`).
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
"""How long inboxes and outboxes keep a row, unless they are told otherwise."""
SURELY_KEPT: Final = 6 / 7
"""Of that time: what is sent again must arrive before it is forgotten, by a clock that may be another."""
BATCH: Final = 500
"""So few that whoever else writes to the database need not wait for long."""

CorrectionAction = Literal["resend", "reverse", "correct"]


class CorrectionStep(StrEnum):
    """What is done about a finding."""

    RESENT = "resent"
    REVERSED = "reversed"
    ADDED = "added"
    ON_ITS_WAY = "on_its_way"
    OUTDATED = "outdated"
    TOO_OLD = "too_old"
    LEFT = "left"

    @property
    def is_done(self) -> bool:
        """Whether something is sent."""
        return self in (CorrectionStep.RESENT, CorrectionStep.REVERSED, CorrectionStep.ADDED)


@dataclass(frozen=True, slots=True)
class ReconciliationFinding:
    """One business id of which something is wrong.

    `is_unexpected` says that the outbox's side should not have it at all. `message_id`, `body` and `headers` are of the
    message that is added if need be; it goes to the exchange and the routing key, if there is one of them. `at` is when
    a ledger says that it was, if one does.
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
    """What the outbox has under a business id; the status of its reversal is empty if it has none."""

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
    """What is to be done about it.

    Of what was before `kept_since` a side may have forgotten that it had it. A row of which nobody knows when it was
    written counts as such. So does what is unexpected and has no time, but that is for somebody to find out. What is
    missing, and in no outbox, is taken for new if it has none.
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
    """What `settle` would do about each, by now."""
    steps: list[CorrectionStep] = []
    with database_errors(engine), engine.connect() as connection:
        for some in _batches(findings):
            outbox = _looked_up(connection, some, keep, is_locked=False)
            steps += [outbox.step(finding) for finding in some]
    return steps


def apply_corrections(
    engine: Engine, findings: Iterable[ReconciliationFinding], keep: timedelta = KEEP
) -> list[CorrectionStep]:
    """Do it; what was done about each. Both sides keep their rows for so long at least."""
    steps: list[CorrectionStep] = []
    for some in _batches(findings):
        with database_errors(engine), engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # what is looked up must stay so until it is acted upon, as it does where rows are locked
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
    """What the outbox has of some findings."""

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
    # of a row that has no time of its own, that of the first sending will do, which a second one has written over
    sent_once = case((row.attempt <= 1, row.sent_at))
    written_at = func.coalesce(row.created_at, sent_once, type_=row.created_at.type)
    rows = select(row.business_id, standing_status(), is_own_message(), written_at).where(row.business_id.in_(ids))
    # in one order, so that two who do the same wait for each other and not in a circle
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
    """One that failed is taken up by that; one that was sent, or is done, is sent again all the same."""
    try:
        reversal = compensate(connection, finding.business_id, "reverse")
    except CannotConvert:
        reversal = None
    if reversal is None:
        return CorrectionStep.LEFT
    if known.reversal_status in ("sent", "done"):
        Outbox().resend(connection, reversal)
    return CorrectionStep.REVERSED
