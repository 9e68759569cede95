"""Streams as a source: read by offsets, again and again, always the same.

    driver      source ──▶ places ──▶ link        where partitions begin and end, and what of that is read next
    executors   source ──▶ feed ──▶ link          chunks of one partition, from one offset to another
                           └─▶ chunks             as columns of Arrow

A stream's message has its offset for ever, so a range of offsets is all that a task needs to know, and all that Spark
has to keep: whoever reads the range again gets the same rows. Exactly once is then a matter of Spark's own log.

What has to be known of the broker is asked by *probes*: consumers that get one answer, where a stream begins and ends,
and where a time is in it. The driver keeps a connection for them; a task makes one, and makes it again when it breaks.

Not here: queues, which are emptied (`spark.queue_source`).
"""
