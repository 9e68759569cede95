"""What a reconciliation found, set right through the outbox: rows that are sent again or taken back, or messages more.

A finding is about one business id, and says what is wanted: `resend` what the other side lacks, `reverse` what it has
and should not, or `correct` it. What is done depends on the row that the outbox has under this id:

| wanted                         | the row                             | what is done                            |
|--------------------------------|-------------------------------------|-----------------------------------------|
| `resend`                       | was sent, is done or failed         | `resent`: the same id, once more        |
|                                | is pending, or is being confirmed   | nothing: it is `on_its_way`             |
|                                | is to be taken back                 | nothing: the result is `outdated`       |
| `reverse` what is unexpected   | is to be taken back, or was refused | `reversed`: as if no receipt had come   |
|                                | counts                              | nothing: the result is `outdated`       |
| any of these                   | is not there                        | `added`: the finding's own message      |
| `correct`; `reverse` of a part | whatever it is                      | the same                                |

A message is `added` only if the finding says where it goes; else it is `left` to somebody. It is of the kind
`correction`, which no ledger counts.

Invariants:

1. A few hundred findings are one transaction: whoever is killed has done each of them wholly or not at all.
2. The same finding again makes no second row: the id of a reversal is that of the row it reverses, and that of a
   message more is the finding's. What was sent meanwhile may be sent once more, under its id.
3. Nothing that the outbox counts is ever taken back for a result that does not know of it.

Not here: which findings there are, and how often one is tried (`warren.pipeline.compensate`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Final, Literal

from sqlalchemy import Connection, Engine, select

from warren.client.errors import CannotConvert
from warren.client.ledgers.database import reached
from warren.client.ledgers.reading import TAKEN_BACK
from warren.client.machine.publishing import Message
from warren.client.outbox import Outbox
from warren.client.outbox.kinds import MESSAGE, REVERSAL
from warren.client.receipts.compensating import compensate
from warren.client.tables import OUTBOX
from warren.wire.properties import Properties

CORRECTION: Final = "correction"
BATCH: Final = 500
"""So few that whoever else writes to the database need not wait for long."""

Action = Literal["resend", "reverse", "correct"]


class Step(StrEnum):
    """What is done about a finding."""

    RESENT = "resent"
    REVERSED = "reversed"
    ADDED = "added"
    ON_ITS_WAY = "on_its_way"
    OUTDATED = "outdated"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Finding:
    """One business id of which something is wrong.

    `is_unexpected` says that the outbox's side should not have it at all. `message_id`, `body` and `headers` are of the
    message that is added if need be; it goes to the exchange and the routing key, if there is one of them.
    """

    business_id: str
    action: Action
    is_unexpected: bool
    message_id: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    exchange: str = ""
    routing_key: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What the outbox has under a business id; the status of its reversal is empty if it has none."""

    status: str
    reversal_status: str = ""

    @property
    def is_taken_back(self) -> bool:
        return bool(self.reversal_status) or self.status in TAKEN_BACK


def decided(finding: Finding, known: Known | None) -> Step:
    """What is to be done about it."""
    if known is not None and finding.action == "resend":
        if known.is_taken_back:
            return Step.OUTDATED
        return Step.ON_ITS_WAY if known.status in ("pending", "confirming") else Step.RESENT
    if known is not None and finding.action == "reverse" and finding.is_unexpected:
        if not known.is_taken_back:
            return Step.OUTDATED
        return Step.ON_ITS_WAY if known.reversal_status == "pending" else Step.REVERSED
    return Step.ADDED if finding.exchange or finding.routing_key else Step.LEFT


def preview(engine: Engine, findings: Iterable[Finding]) -> list[Step]:
    """What `settle` would do about each, by now."""
    steps: list[Step] = []
    with reached(engine), engine.connect() as connection:
        for some in _batches(findings):
            known = _known(connection, some, is_locked=False)
            steps += [decided(finding, known.get(finding.business_id)) for finding in some]
    return steps


def settle(engine: Engine, findings: Iterable[Finding]) -> list[Step]:
    """Do it; what was done about each."""
    steps: list[Step] = []
    for some in _batches(findings):
        with reached(engine), engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # what is looked up must stay so until it is acted upon, as it does where rows are locked
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            known = _known(connection, some, is_locked=True)
            done = [_done(connection, finding, known.get(finding.business_id)) for finding in some]
        steps += done
    return steps


def _batches(findings: Iterable[Finding]) -> Iterator[list[Finding]]:
    remaining = iter(findings)
    while some := list(islice(remaining, BATCH)):
        yield some


def _known(connection: Connection, findings: Sequence[Finding], is_locked: bool) -> dict[str, Known]:
    ids, row = sorted({finding.business_id for finding in findings}), OUTBOX.c
    messages = select(row.business_id, row.status).where(row.business_id.in_(ids), row.kind == MESSAGE)
    # in one order, so that two who do the same wait for each other and not in a circle
    locked = messages.order_by(row.id).with_for_update() if is_locked else messages
    statuses = connection.execute(locked).all()
    settling = select(row.settles, row.status).where(row.settles.in_(ids), row.kind == REVERSAL)
    reversals = dict(connection.execute(settling).all())
    return {each: Known(status, reversals.get(each, "")) for each, status in statuses}


def _done(connection: Connection, finding: Finding, known: Known | None) -> Step:
    step = decided(finding, known)
    outbox = Outbox(exchange=finding.exchange, routing_key=finding.routing_key)
    if step is Step.RESENT:
        outbox.resend(connection, finding.business_id)
    elif step is Step.REVERSED:
        assert known is not None
        return _reversed(connection, finding, known)
    elif step is Step.ADDED:
        properties = Properties(content_type="application/json", headers=dict(finding.headers))
        outbox.add(connection, Message(finding.body, properties), business_id=finding.message_id, kind=CORRECTION)
    return step


def _reversed(connection: Connection, finding: Finding, known: Known) -> Step:
    """One that failed is taken up by that; one that was sent, or is done, is sent again all the same."""
    try:
        reversal = compensate(connection, finding.business_id, "reverse")
    except CannotConvert:
        reversal = None
    if reversal is None:
        return Step.LEFT
    if known.reversal_status in ("sent", "done"):
        Outbox().resend(connection, reversal)
    return Step.REVERSED
