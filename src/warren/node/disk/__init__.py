"""The node's side of the disk: its data directory, the threads that write and read the journal and the stream archives,
the metadata file, offline inspection and salvage.

Not here: the format of the journal and recovery (`warren.broker.journal`).
"""
