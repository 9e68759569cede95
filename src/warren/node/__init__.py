"""The asyncio shell round the broker: listeners, client sockets, disk, peers, etcd, configuration, logs, signals.

Not here: what the broker decides (`warren.broker`), the HTTP API (`warren.admin`).
"""
