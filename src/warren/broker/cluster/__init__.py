"""Several nodes that work as one broker: the node as a member, joining, hello between nodes, placement of new queues,
orphaned queues. Not here: who is a member (`broker.membership`), the shared metadata (`broker.metadata`), mirrored
queues (`broker.replication`), sockets (`node.peers`).
"""
