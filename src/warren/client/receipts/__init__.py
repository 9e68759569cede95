"""Receipts: whether a message arrived and was done, and what happens when no receipt comes.

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

1. A row that wants a receipt ends as `done` or `reversed` by its receiver's receipt, or as `failed` with an alert.
2. A resent message has the same business id. A confirmation or reversal has its own, derived from it, and is one row
   however often it is requested. With an inbox at the receiver a message is done once, or undone once, or never.
3. A message with a reversal is never `done`: a late receipt is logged. At the receiver, a message that comes after its
   reversal is a duplicate.
4. All state is in the rows. Chasers and receipt handlers may be killed at any point; one chaser of many is active, and
   one that lost its lease writes nothing.
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
