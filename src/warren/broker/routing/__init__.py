"""Exchanges and bindings of a virtual host, and the routes from exchanges to queues.

Not here: publishing to the queues of a route (`broker.sessions`), delayed messages (`broker.delays`).
"""
