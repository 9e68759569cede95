"""`warren ctl` and a real node: its output, its changes, and its exit codes."""
