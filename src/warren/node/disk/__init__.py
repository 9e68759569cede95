"""The node's side of the disk: its data directory, the thread that writes the journal, the thread that reads it."""
