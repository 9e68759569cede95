"""What is not through with: the outbox as a ledger, looked at by people, compared by jobs, and set right by them.

    standing(engine)       how many rows are open, by status, and the first of each     ──▶ `warren client open`

What is open: a row that is to be sent (`pending`), one that was sent and has no receipt (`sent`, if it wants one), one
that another row confirms or reverses (`confirming`, `reversing`), one that its receiver `refused`, and one that
somebody has to look at (`failed`). All others are through with, and are kept for a while by the relay.

Promises and invariants:

1. Looking changes nothing.
2. Counts and rows are of one moment. Ages are by the database's clock.
3. What is through with costs nothing, however much of it there is: everything is counted and found by indexes that have
   the open rows alone.

Not here: sending (`client.outbox`), what is done when no receipt comes (`client.receipts`), comparing ledgers
(`warren.pipeline.reconcile`).
"""

from warren.client.ledgers.open_rows import OpenItem, OpenRows, Standing, StatusCount, open_items, standing

__all__ = ["OpenItem", "OpenRows", "Standing", "StatusCount", "open_items", "standing"]
