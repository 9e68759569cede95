"""A small world that gives every page something to show, and the addresses of all pages.

Not here: load; the figures of this world stand still.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pika

from tests.browser.site import Site

LISTS = [
    "",
    "connections",
    "channels",
    "exchanges",
    "queues",
    "users",
    "vhosts",
    "policies",
    "limits",
    "shovels",
    "federation",
    "definitions",
    "tracing",
    "logs",
]
TITLES = {"": "Overview", "vhosts": "Virtual hosts", "logs": "Log levels"}


@contextmanager
def furnished(site: Site, vhost: str) -> Iterator[list[tuple[str, ...]]]:
    """While it lasts there is one of everything in the virtual host; answers the addresses of all pages."""
    site.make_queue(vhost, "orders", **{"x-max-length": 1000, "x-message-ttl": 86_400_000})
    site.ask("PUT", "exchanges", vhost, "shop", body={"type": "topic"})
    site.ask("POST", "bindings", vhost, "e", "shop", "q", "orders", body={"routing_key": "order.#"})
    site.ask("POST", "bindings", vhost, "e", "amq.fanout", "e", "shop", body={"routing_key": ""})
    site.ask(
        "PUT",
        "policies",
        vhost,
        "limits",
        body={"pattern": "^o", "definition": {"max-length": 5, "expires": 3_600_000}},
    )
    site.ask("PUT", "operator-policies", vhost, "ceiling", body={"pattern": ".*", "definition": {"max-length": 9}})
    site.ask("PUT", "vhost-limits", vhost, "max-queues", body={"value": 50})
    site.ask("PUT", "topic-permissions", vhost, "guest", body={"exchange": "amq.topic", "write": ".*", "read": ".*"})
    # from a closed port, so that there is a link and its state does not change
    moving = {"src-uri": "amqp://127.0.0.1:1", "src-queue": "q", "dest-uri": "amqp://", "reconnect-delay": 3600}
    site.ask("PUT", "parameters", "shovel", vhost, "moving", body={"value": moving})
    site.publish(vhost, "orders", "two spades", count=3)
    host, port = site.amqp
    client = pika.BlockingConnection(
        pika.ConnectionParameters(host, port, vhost, client_properties={"connection_name": "shop front"})
    )
    channel = client.channel()
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("orders", lambda *_: None)
    try:
        connection, single = _names_of_client(site, vhost)
        lists: list[tuple[str, ...]] = [(page,) if page else () for page in LISTS]
        yield [
            *lists,
            ("connections", connection),
            ("channels", single),
            ("exchanges", vhost, "shop"),
            ("exchanges", vhost, "amq.default"),
            ("queues", vhost, "orders"),
            ("users", "guest"),
            ("vhosts", vhost),
        ]
    finally:
        client.close()


def _names_of_client(site: Site, vhost: str) -> tuple[str, str]:
    [connection] = site.get("vhosts", vhost, "connections")
    [channel] = site.get("connections", connection["name"], "channels")
    return connection["name"], channel["name"]
