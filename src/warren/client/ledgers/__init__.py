"""The open rows of the outbox: for people to look at, for jobs to compare and to correct.

    standing(engine)       how many rows are open, by status, and the first of each     ──▶ `warren client open`

Open rows are: to be sent (`pending`), sent and waiting for a receipt (`sent`, if one is wanted), being confirmed or
reversed by another row (`confirming`, `reversing`), `refused` by the receiver, and `failed`, which a person has to look
at. All other rows are finished, and the relay keeps them for a while.

Promises and invariants:

1. Looking changes nothing.
2. Counts and rows are of one snapshot. Ages are by the database's clock.
3. Finished rows cost nothing, however many there are: all queries use indexes of the open rows alone.

Not here: sending (`client.outbox`), missing receipts (`client.receipts`), comparing ledgers
(`warren.pipeline.reconcile`).
"""

from warren.client.ledgers.open_rows import OpenItem, OpenRows, Standing, StatusCount, open_items, standing

__all__ = ["OpenItem", "OpenRows", "Standing", "StatusCount", "open_items", "standing"]
