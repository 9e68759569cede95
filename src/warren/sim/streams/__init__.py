"""One node with streams, and clients that remember every offset they were shown, in a pretend world.

::

    publishers ── numbered messages, confirmed ──► streams ──► readers: from the first offset, or where they were
         │                                                        │
         └────────── ledger: what was confirmed, what each offset was ──────┘

The node is killed and loses its power at any step of what its disk does to the journal and to the files of streams.
When all is healed every stream is read from its beginning. What must hold:

1.  An offset is one message, for whoever sees it, in whatever life of the node.
2.  Offsets have no gap: a reader is given one after another, unless old ones have been dropped.
3.  Whatever was confirmed has an offset, one and no more, unless it was dropped.
4.  The messages of one publisher, which publishes each of them once, are in their order.

Not here: other queues (`sim.checkers`), mirrored streams (`sim.cluster`).
"""
