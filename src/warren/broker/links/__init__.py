"""One ordered link between two nodes: queues of other nodes as sessions of this one use them, and this node's queues as
other nodes use them.

Not here: sockets (`node`), queues that several nodes hold (`broker.replication`).
"""
