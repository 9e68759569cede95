"""The logical name of a partitioned stream, on every node.

::

    client's consumer ── attendance ──┬── part ── partition 0, a stream of this node
                                      ├── part ── partition 1, a queue of another node
                                      └── part ── partition 2, a mirrored queue

Nothing is agreed upon when somebody consumes the name: each partition's home knows who takes part in it, and that is
all there is to know.

Not here: which partition a message is for (`model.partitions`), who of a group is served (`stream.groups`).
"""
