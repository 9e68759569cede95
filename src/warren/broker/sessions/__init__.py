"""One client's conversation with the node: handshake, channels, publishes, confirms, consumers, transactions.

Not here: queues (`broker.queues`), routing (`broker.routing`), permissions (`broker.access`), sockets (`node`).
"""
