"""A node as a member of a cluster: joining, the hello between nodes, placement of new queues, orphaned queues.

Not here: the membership (`broker.membership`), the shared metadata (`broker.metadata`), mirrored queues
(`broker.replication`), sockets (`node.peers`).
"""
