"""`warren cluster`: a cluster on one machine for tests and experiments. Each node is a process.

Not here: clusters of several machines (`cli.ha`), commands for a running node (`cli.ctl`).
"""
