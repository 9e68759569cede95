"""The metadata of a cluster in etcd: the store that its nodes share, and the member that a disc node runs.

Nothing here is imported by a node that is alone, because gRPC costs memory.
"""
