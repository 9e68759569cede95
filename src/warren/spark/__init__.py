"""Spark's way in and out of Warren: `format("warren")` for reading and writing, in batches and as streams.

    source ──▶ options, schema
           ──▶ streams                    by offsets, in chunks that are columns already
           ──▶ queue_source ──▶ queues    staged, then read; acked when that is kept
           ──▶ sink ──▶ sinking           rows as messages, each with an id that a retry has too

Spark runs the parts in processes of their own: planning in the driver, reading and writing in tasks. Whatever goes from
one to another is pickled, so it holds options and offsets and never a connection.

What is pure here (options, columns, ids, frames, offsets) is tested without Spark.

Not here: the protocol (`warren.client`); anything of the broker, which may be on another machine.
"""
