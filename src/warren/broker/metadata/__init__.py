"""Definitions as keys and values: what a queue, a user, a policy or a node is in the metadata store, and the
transactions that change it.

Not here: what a definition does once it is applied (`broker.vhost`, `broker.access`, `broker.policies`), the stores
themselves (`node`).
"""
