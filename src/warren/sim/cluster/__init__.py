"""Several nodes in one simulated world, as one cluster: links, a shared metadata store, clients that remember promises.

Not here: a node alone (`sim.world`), the replication rules on their own (`sim.replica_sets`).
"""
