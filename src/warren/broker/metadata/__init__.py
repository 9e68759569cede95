"""Definitions as keys and values: queues, users, policies and nodes in the metadata store, and the transactions that
change them.

Not here: the objects that definitions make (`broker.vhost`, `broker.access`, `broker.policies`), the stores (`node`).
"""
