"""How many connections there are, and how many of them one address has.

One address may have half of all that there may be, so that whoever holds idle ones leaves room for everybody else.
There is no exception: a proxy before the node, on this machine or another, has half of them for all who come through
it. Of IPv6 addresses the first 64 bits count, since whoever has one has all that begin so.

Invariant: what was let in is counted until it leaves, once.

Not here: how whoever is refused is told (`http.link`).
"""

import ipaddress
from collections import Counter

SHARE_OF_ONE = 0.5


class Crowd:
    """The connections of one server."""

    def __init__(self, connections_max: int) -> None:
        self._room = connections_max
        self._room_of_one = max(1, int(connections_max * SHARE_OF_ONE))
        self._inside = 0
        self._of_places: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Whether there is room for one more from there; then it is in."""
        place = place_of(host)
        if self._inside >= self._room or self._of_places[place] >= self._room_of_one:
            return False
        self._inside += 1
        self._of_places[place] += 1
        return True

    def leave(self, host: str) -> None:
        place = place_of(host)
        self._inside -= 1
        self._of_places[place] -= 1
        if not self._of_places[place]:
            del self._of_places[place]


def place_of(host: str) -> str:
    """What counts as one address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
