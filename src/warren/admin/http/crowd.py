"""How many connections there are, and how many of them one address has.

One address may have half of all that there may be, so that whoever holds idle ones leaves room for everybody else.
There is no exception: a proxy before the node, on this machine or another, has half of them for all who come through
it. Of IPv6 addresses the first 64 bits count, since whoever has one has all that begin so.

Whoever finds no room may still ask how the node is, on the doorstep: a load balancer that is told nothing takes the
node for dead, and cuts its clients off. There is little room there, too, of which one address has an eighth; a balancer
that speaks for itself has room of its own, which nobody else can take.

Invariant: what was let in is counted until it leaves, once, where it was let in.

Not here: how whoever is refused is told (`http.link`).
"""

import ipaddress
from collections import Counter

SHARE_OF_ONE = 0.5
DOORSTEP_CONNECTIONS_MAX = 64
SHARE_OF_ONE_ON_THE_DOORSTEP = 1 / 8


class Room:
    """For so many connections, and for so many of one address."""

    def __init__(self, connections_max: int, share_of_one: float) -> None:
        self._room = connections_max
        self._room_of_one = max(1, int(connections_max * share_of_one))
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


class Crowd:
    """The connections of one server."""

    def __init__(self, connections_max: int) -> None:
        self.inside = Room(connections_max, SHARE_OF_ONE)
        self._doorstep = Room(DOORSTEP_CONNECTIONS_MAX, SHARE_OF_ONE_ON_THE_DOORSTEP)
        self._balancers = Room(DOORSTEP_CONNECTIONS_MAX, SHARE_OF_ONE)

    def enter(self, host: str, is_balancer: bool = False) -> Room | None:
        """Where there is room for one more from there; then it is in."""
        rooms = (self.inside, self._balancers) if is_balancer else (self.inside, self._doorstep)
        return next((room for room in rooms if room.enter(host)), None)


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
