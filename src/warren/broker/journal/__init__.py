"""The journal of a node, as bytes and rules: records, batches, segments, indexes, checkpoints, recovery, compaction,
and the contents of replicas. No file is opened here.

Imports go one way: `recovery` and `replica_contents` use `journal` and `queue_index`; these use `tail`; `tail` uses the
byte formats (`batches`, `records`, `payloads`, `segment_index`, `checkpoint`).

Not here: the files (`node.disk`), how replicas agree (`broker.replication`), metadata (`broker.metadata`).
"""
