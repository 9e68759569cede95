"""A queue as a source: consuming destroys, and Spark reads again.

So messages are first *staged*: written to files, in the order they came, and counted. Spark's offsets count what was
staged, its tasks read the files, and the messages stay unacked at the broker all the while. Only when Spark has
committed a batch are its messages acked, in a transaction that the broker answers when it is on disk, and its files
deleted.

    queue ──deliver──▶ intake ──▶ staging ──offset──▶ Spark ──commit──▶ recorded ──▶ acked ──▶ files deleted

Whatever is killed at any point, each message is read once:

- *Before it is staged*: nobody has heard of it, and the broker delivers it again.
- *Staged, not committed*: the file is read, again if need be. The broker delivers the message again to the next
  connection, where it is known by what identifies it and not staged anew (`spark.queues.identity`).
- *Committed, not acked*: it is delivered again, known as before, and acked.

Spark plans a batch when the one before it is done and recorded: so the start of the next batch is as good as a commit,
and comes sooner. What a query that is stopped had done last is acked by its next run, which finds the files.

Not here: Spark's side of it (`spark.queue_source`).
"""
