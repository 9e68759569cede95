"""`warren cluster`: a cluster on one machine, for trying and testing; each node is a process of its own.

All that is known of it is in one directory:

    cluster.json    the nodes, their ports and the arguments they are started with; written once, by `up`
    cookie          the secret they share
    n1/             the data of node n1
    n1.log          all it printed, one start after another
    n1.pid          its process; n1.started has the proof that this is still the same one
    lock            held by whoever starts or stops nodes

Not here: what a node does (`node`), clusters on several machines (`warren serve --join`).
"""
