"""The metadata of a cluster in etcd: the store that its nodes share, and the member that a disc node runs.

Nothing here is imported by a node that is alone, because gRPC costs memory.
"""

import os

# gRPC would take part in every start of a process, and say so on standard error
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
