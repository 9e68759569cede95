"""`warren ctl` and a real node: what it prints, what it changes, and how it ends."""
