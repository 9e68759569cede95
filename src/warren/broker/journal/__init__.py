"""The journal as bytes and as rules: records, batches, segments, indexes, checkpoints, recovery, compaction, and what a
replica of a mirrored queue holds in it. No file is opened here.

Not here: the files (`node`), how replicas agree (`broker.replication`), metadata (`broker.metadata`).
"""
