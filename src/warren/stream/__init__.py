"""Streams: logs that readers go through without taking anything away.

Theory of operation
===================

A message in a stream has an *offset*: the first is 0, and no number is left out. Its position in its queue, by which
rings and journals know it, is the epoch in which it was given out and, in the lower bits, the offset and one. So an
offset that was given out by a master that was lost, and then again by the next one, belongs to two positions; and only
one of them is ever settled.

What arrives is written to the journal, as for any queue, and stays in memory: the *tail*. Readers see what is settled
and nothing else, because an offset that was seen must never mean another message. When enough of the tail is settled it
becomes a *chunk*: a block of columns that is written to the stream's own files, its *archive*, flushed, and only then
removed from the journal. ::

    publish ──► journal ──flush──► settled: tail ──► readers at the end
                                     │ a chunk's worth
                                     ▼
                                   archive: segment files of chunks ──► readers of what was, many messages at a time

A stream on disk is therefore the chunks of its archive and, behind them, what the journal has. After a crash both are
there: a chunk that is not whole was not removed from the journal, and what is in both is taken from the archive.

Chunks are never changed. What is too old, or too much, goes with the oldest files, as a whole (`retention`).

Not here: queues that are emptied (`queue`), what is on which disk (`node.disk`), who holds it (`mirroring`).
"""
