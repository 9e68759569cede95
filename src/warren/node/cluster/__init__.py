"""How a process takes part in a cluster: its record of the cluster, joining, the metadata store, orders to a stopped
node.

Not here: membership as the broker sees it (`warren.broker.cluster`), calls to etcd (`node.etcd`).
"""
