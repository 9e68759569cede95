"""Where a node looks for the cluster it is to be part of: `--join`, then what peer discovery is configured to say.

`classic_config` is a list of nodes in the configuration. `dns` is a host's name, each address of which is a node, on
the port this node listens on itself. Both usually name this node, too, which is left out: in a list by its name, among
addresses because it is the machine's own and this node listens there.

Names may be known only some time after a machine has started, so DNS is asked ten times within five seconds.

Not here: what is asked of whom is found (`node.peers.links`).
"""

import asyncio
import socket

from warren.cluster.addresses import PEER_PORT, PeerAddress
from warren.errors import ConfigError
from warren.node.config.cluster_settings import DNS, ClusterSettings
from warren.node.listeners import ListenAddress

DNS_TRIES = 10
DNS_PAUSE_S = 0.5


async def discover(settings: ClusterSettings, own_name: str) -> list[PeerAddress]:
    """Addresses to try, each once, in order; `ConfigError` if DNS was to be asked and did not say."""
    found = [*settings.join]
    if settings.discovery == DNS:
        listener = settings.peer_listener
        hosts = await resolve(settings.discovery_hostname)
        found += [PeerAddress(host, listener.port or PEER_PORT) for host in hosts if not _is_own(host, listener)]
    else:
        found += [node.address for node in settings.discovery_nodes if node.name != own_name]
    return list(dict.fromkeys(found))


async def comes_first(settings: ClusterSettings, own_name: str) -> bool:
    """Whether this node is the first of those that are configured: the one that others can wait for."""
    if settings.discovery == DNS:
        return _is_own((await resolve(settings.discovery_hostname))[0], settings.peer_listener)
    return bool(settings.discovery_nodes) and settings.discovery_nodes[0].name == own_name


async def resolve(hostname: str) -> list[str]:
    """All addresses that a name has, those of IPv4 first, in an order that is the same for everybody."""
    loop = asyncio.get_running_loop()
    for tries_left in reversed(range(DNS_TRIES)):
        try:
            found = await loop.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
            break
        except OSError as error:
            if not tries_left:
                reason = f"the host {hostname} is unknown: {error.strerror}"
                raise ConfigError(f"cluster_formation.dns.hostname cannot be used: {reason}") from error
            await asyncio.sleep(DNS_PAUSE_S)
    families = {str(where[0]): family for family, _, _, _, where in found}
    return sorted(families, key=lambda host: (families[host] != socket.AF_INET, host))


def _is_own(host: str, listener: ListenAddress) -> bool:
    """Whether dialling that address would lead back here."""
    if listener.host:
        return listener.host == host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # only an address of this machine can be bound
            probe.bind((host, 0))
        except OSError:
            return False
    return True
