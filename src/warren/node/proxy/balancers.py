"""Who is believed: the load balancers whose connections begin with a PROXY header.

The protocol forbids to guess. So it is known beforehand who sends a header: everybody, or, if the balancers are named,
they and nobody else. Whoever has to send one and does not is refused; so is a header of anybody else, as bytes that are
not of the listener's protocol.

Whoever comes from this machine may do more than others (`loopback_users`). A loopback address in a header that came
from another machine is one of that machine: it is not believed, and the balancer's own address counts.

Not here: the header (`proxy.header`), sockets (`proxy.reading`).
"""

import ipaddress
from dataclasses import dataclass

from warren.node.proxy.header import Ends

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Balancers:
    """Of one kind of listeners."""

    # none: everybody
    networks: tuple[Network, ...] = ()

    def include(self, host: str) -> bool:
        """Whether who connects from there has to send a header."""
        return not self.networks or self.name(host)

    def name(self, host: str) -> bool:
        """Whether it is one of those that are named."""
        address = _address(host)
        return address is not None and any(address in network for network in self.networks)


def believed(ends: Ends | None, balancer: str) -> Ends | None:
    """What counts of a header that this host sent; nothing: the addresses of the socket count."""
    if ends is None or not _is_loopback(ends.peer[0]) or _is_loopback(balancer):
        return ends
    return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
