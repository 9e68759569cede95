"""Where a node looks for the cluster it is to be part of: `--join`, then what peer discovery is configured to say.

`classic_config` is a list of nodes in the configuration. `dns` is a host's name, each address of which is a node, on
the port this node listens on itself. Both usually name this node, too: whoever dials itself is refused by the hello.

Not here: what is asked of whom is found (`node.peers.links`).
"""

import asyncio
import socket

from warren.cluster.addresses import PEER_PORT, PeerAddress
from warren.node.config.cluster_settings import DNS, ClusterSettings


class NothingFound(Exception):
    """The name that should lead to the cluster's nodes leads nowhere, for this reason."""


async def discover(settings: ClusterSettings) -> list[PeerAddress]:
    """Addresses to try, each once, in order; `NothingFound` if DNS was to be asked and did not say."""
    found = [*settings.join]
    if settings.discovery == DNS:
        found += await resolve(settings.discovery_hostname, settings.peer_listener.port or PEER_PORT)
    else:
        found += settings.discovery_nodes
    return list(dict.fromkeys(found))


async def resolve(hostname: str, port: int) -> list[PeerAddress]:
    """All addresses that a name has, in order, so that every node sees the same row."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NothingFound(f"the host {hostname} is unknown: {error.strerror}") from error
    hosts = {str(where[0]): family for family, _, _, _, where in found}
    return [PeerAddress(host, port) for host in sorted(hosts, key=lambda host: (hosts[host], host))]
