"""One stream: a log that readers go through without removing anything. Its tail is in memory, its chunks are in archive
files. It has readers, consumer groups and stored offsets; a partitioned stream has a logical name.

Not here: mirrored streams (`broker.replication`), the files themselves (`node.disk`).
"""
