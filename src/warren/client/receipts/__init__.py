"""Did it arrive, and was it done: receipts, and what is done when none comes.

    sender   outbox.add(..., wants_receipt=True, compensation="reverse")        Receipts(engine).handler
                  │                                                                   ▲
                  ▼ relay                                                             │ relay
    receiver inbox.handler(work, undo=undo, receipts=Outbox())  ──▶ outbox ───────────┘

    pending ─▶ sent ─▶ done
                │
                ├ overdue ─▶ pending, `resends` times
                └ then, or refused ─┬─ confirm ─▶ confirming ─▶ done         another row, sent `compensations` times
                                    ├─ reverse ─▶ reversing  ─▶ reversed
                                    └─ neither, or all in vain ─▶ failed, and an alert

Promises and invariants:

1. A row that wants a receipt ends as `done` or `reversed` by the word of its receiver, or as `failed`, and somebody is
   told.
2. What is sent again has the same business id; what confirms or reverses has one of its own, made of that, and is one
   row however often it is asked for. With an inbox at the other end a message is done once, or undone once, or never.
3. A message for which there is a reversal is never `done`: a receipt that comes late is logged. At the receiver, a
   message that comes after its reversal is a duplicate.
4. Everything is in the rows. Chasers and handlers of receipts may be killed at any point; one chaser is active among
   many, and one that lost its lease writes nothing.
5. An alert is raised at least once for each message that failed.

Not here: sending and its order (`client.outbox`), the receiver's side (`client.inbox`).
"""

from warren.client.inbox.receipt_writer import Refused, receipt_for
from warren.client.receipts.chaser import Alert, Chased, Chaser, ChasingSettings
from warren.client.receipts.compensation import compensate, compensating_id
from warren.client.receipts.receipts import Marked, Receipts

__all__ = [
    "Alert",
    "Chased",
    "Chaser",
    "ChasingSettings",
    "Marked",
    "Receipts",
    "Refused",
    "compensate",
    "compensating_id",
    "receipt_for",
]
