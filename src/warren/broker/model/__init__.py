"""The nouns that every package of the broker shares, and the ports between packages.

Nouns: messages, queue entries, events, effects, the turn, replica sets, settings. Ports: abstract queues, consumers,
logs, archives and replicas.

Not here: implementations of the ports (`broker.queues`, `broker.streams`, `broker.journal`, `broker.links`,
`broker.replication`).
"""
