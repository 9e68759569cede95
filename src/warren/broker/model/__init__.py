"""The nouns that every package of the broker shares, and the ports between packages: messages, events, effects, the
turn, and abstract queues, consumers, logs and replicas.

Not here: any implementation of a port (`queues`, `streams`, `journal`, `links`, `replication`).
"""
