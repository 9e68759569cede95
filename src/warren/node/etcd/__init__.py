"""The metadata of a cluster in etcd: the shared store, and the etcd member of a disc node.

A node alone imports nothing from here, because gRPC costs memory.
"""

import os

# gRPC would hook into every fork and log about it on standard error
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
