"""The names that a link of an exchange gives to its queue and its internal exchanges upstream, which are RabbitMQ's.

They have the name of this cluster in them: two brokers that federate from one upstream want a queue each.
"""

import hashlib
from typing import Final
from urllib.parse import quote

SUFFIXES: Final = ("A", "B")


def upstream_queue_name(
    exchange: str, upstream_vhost: str, cluster_name: str, own_vhost: str, own_exchange: str
) -> str:
    """Says as much of the downstream end as is not the same as upstream."""
    if own_vhost != upstream_vhost:
        there = f":{own_vhost}:{own_exchange}"
    elif own_exchange != exchange:
        there = f":{own_exchange}"
    else:
        there = ""
    return f"federation: {exchange} -> {cluster_name}{there}"


def internal_exchange_name(queue: str, suffix: str) -> str:
    return f"{queue} {suffix}"


def link_key(kind: str, vhost: str, name: str, upstream: str, upstream_name: str) -> str:
    """Which link it is, on every node; whatever else is said of it may change."""
    return "/".join(("federation", kind, *(quote(part, safe="") for part in (vhost, name, upstream, upstream_name))))


def link_id(key: str) -> str:
    """Eight hexadecimal digits by which operators name a link."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:8]
