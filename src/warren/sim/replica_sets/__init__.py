"""A model of one replica set: the production master and mirror machines in small model nodes, and nothing else of a
broker.

Not here: replica sets in whole brokers (`sim.cluster`).
"""
