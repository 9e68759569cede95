"""One stream: a log that readers go through without removing anything. Its tail in memory, its chunks in archive files,
its readers, consumer groups and stored offsets; and the logical name of a partitioned stream.

Not here: a stream held by several nodes (`replication`), the files themselves (`warren.node`).
"""
