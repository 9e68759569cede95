"""The Spark connector: `format("warren")` reads and writes messages, in batches and as streams.

    source ──▶ options                                              what a user may say, and the columns of a message
           ──▶ stream_source ──▶ stream_client ──▶ stream_chunks    by offsets, in chunks that are Arrow columns
           ──▶ queue_source ──▶ queue_consumer, queue_staging       staged, then read; acked after Spark's commit
           ──▶ sink ──▶ publishing_ids, encoder ──▶ publisher       rows as messages, with an id that a retry repeats

Spark runs the parts in separate processes: planning in the driver, reading and writing in tasks. Everything that goes
from one process to another is pickled, so it holds options and offsets and never a connection. Several processes start
for each micro-batch, so each module imports only what its process needs.

**Streams.** A message has its offset for ever, so a task needs only a range of offsets, and Spark keeps only that.
Reading the range again gives the same rows. Exactly once is then a matter of Spark's own log. The driver asks the
broker by *probes*: consumers that get one answer, where a stream begins and ends, and which offset a time has.

**Queues.** Consuming destroys, and Spark reads again. So messages are first *staged*: written to files in order of
delivery, and counted. Spark's offsets count staged messages, its tasks read the files, and the messages stay unacked.
When Spark has committed a batch, its messages are acked in a transaction, and its files are deleted.

    queue ──deliver──▶ consumer ──▶ staging ──offset──▶ Spark ──commit──▶ recorded ──▶ acked ──▶ files deleted

After a kill at any point, each message is read once:

- *Before it is staged*: the broker delivers it again.
- *Staged, not committed*: the file is read again. The broker delivers the message again to the next connection, where
  it is recognised by its identity and not staged a second time.
- *Committed, not acked*: it is delivered again, recognised, and acked.

Spark plans a batch when the one before it is done and recorded, so the start of the next batch counts as a commit. The
last batch of a stopped query is acked by its next run, which finds the files.

**Writing.** Exactly once needs three things. A message id depends on the row, not on when, where or in which order it
is sent. The broker remembers ids and keeps no message twice. A task succeeds only when the broker has confirmed all its
rows; otherwise Spark runs it again.

Options, columns, ids, frames and offsets are pure and tested without Spark.

Not here: the protocol (`warren.client`); anything of the broker, which may be on another machine.
"""
