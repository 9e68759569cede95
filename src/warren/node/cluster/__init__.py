"""A process's part in a cluster: the cluster file, joining, the metadata store, and orders to a stopped node.

Not here: membership as the broker sees it (`warren.broker.cluster`), calls to etcd (`node.etcd`).
"""
