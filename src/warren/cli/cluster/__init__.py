"""`warren cluster`: a cluster on one machine, for trying and testing; each node is a process of its own.
Not here: a cluster of several machines (`cli.ha`), the verbs of a running node (`cli.ctl`).
"""
