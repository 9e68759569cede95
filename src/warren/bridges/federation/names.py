"""The names that a link of an exchange gives to its queue and its internal exchanges upstream.

They have the name of this cluster in them: two brokers that federate from one upstream want a queue each. Two upstreams
of this cluster that lead to one broker share a queue, whose name is RabbitMQ's: with a queue each every message would
come twice. Each has internal exchanges of its own, or the one would delete those by which the other lives; what both
lead to the queue is in it once.
"""

import hashlib
from typing import Final
from urllib.parse import quote

SUFFIXES: Final = ("A", "B")
NAME_OCTETS_MAX: Final = 255


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


def internal_exchange_name(queue: str, of_link: str, suffix: str) -> str:
    """With the link's id; a queue's name may be so long that there is no room for it."""
    name = f"{queue} {of_link} {suffix}"
    octets = name.encode("utf-8", "surrogateescape")
    return name if len(octets) <= NAME_OCTETS_MAX else f"federation: {hashlib.sha256(octets).hexdigest()}"


def shared_exchange_names(queue: str) -> list[str]:
    """As RabbitMQ calls them, for all links: who takes the place of one, under its name, goes on with its queue."""
    return [f"{queue} {suffix}" for suffix in SUFFIXES]


def link_key(kind: str, vhost: str, name: str, upstream: str, upstream_name: str) -> str:
    """Which link it is, on every node; whatever else is said of it may change."""
    return "/".join(("federation", kind, *(quote(part, safe="") for part in (vhost, name, upstream, upstream_name))))


def link_id(key: str) -> str:
    """Eight hexadecimal digits by which operators name a link."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:8]
