"""Where a client comes from.

Not here: whom that matters for (`broker.access.logins`).
"""

import ipaddress


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped.is_loopback if mapped is not None else address.is_loopback
