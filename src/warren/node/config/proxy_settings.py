"""The settings of load balancers before the node: `proxy_protocol`, `proxy_protocol.from.*` and
`management.proxy_protocol`.

Not here: the keys and their parsers (`config.keys`), what a balancer sends (`node.proxy`).
"""

from collections.abc import Mapping
from typing import Any

from warren.node.proxy.balancers import Balancers


def balancers_of(name: str, values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> Balancers | None:
    """Who sends a header to the listeners that this setting is about; None: nobody."""
    if not values.get(name, False):
        return None
    return Balancers(tuple(families.get("proxy_protocol.from", {}).values()))
