"""Where a message goes: the exchanges and bindings of a virtual host, and the walk from a routing key to queues.

Not here: publishing to the queues that were found (`sessions`), delayed messages (`warren.broker.delays`).
"""
