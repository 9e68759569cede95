"""Quotas of the HTTP server: connections, and bytes of request bodies, in total and for each address.

*Connections.* One address may have half of all connections, so that idle connections of one host leave room for others.
A proxy in front of the node is no exception. IPv6 addresses are counted by their first 64 bits. When the quota is full,
a connection is accepted into a small overflow quota, only to ask for the node's fitness. Without this a load balancer
would take a full node for dead and cut its clients off. One address may use an eighth of the overflow quota. Known load
balancers have an overflow quota of their own. An accepted connection is counted once, in the quota that accepted it,
until it is lost.

*Bodies.* All listeners of a node share one budget. A body counts from its arrival until its request is handled, also if
the client has gone meanwhile. The first `UNCOUNTED_BYTES` of each body are always accepted, so ordinary requests are
served while large ones fill the budget; the number of connections bounds them. One address may use half of the budget.
The memory alarm counts all bytes of bodies (`broker.alarms`).

Not here: the size of one body (`http.router`), timeouts (`http.server`).
"""

from collections import Counter

from warren.admin.http.settings import DOCUMENT_BYTES_MAX
from warren.broker.access.backends import address_block

ADDRESS_SHARE = 0.5
OVERFLOW_CONNECTIONS_MAX = 64
OVERFLOW_ADDRESS_SHARE = 1 / 8


class ConnectionQuota:
    """Limits connections in total and per address."""

    def __init__(self, connections_max: int, share_of_one: float) -> None:
        self._limit = connections_max
        self._limit_per_address = max(1, int(connections_max * share_of_one))
        self._count = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Count one more connection from this host, unless the quota is full."""
        place = address_block(host)
        if self._count >= self._limit or self._by_address[place] >= self._limit_per_address:
            return False
        self._count += 1
        self._by_address[place] += 1
        return True

    def leave(self, host: str) -> None:
        place = address_block(host)
        self._count -= 1
        self._by_address[place] -= 1
        if not self._by_address[place]:
            del self._by_address[place]


class ConnectionQuotas:
    """The quotas of one server."""

    def __init__(self, connections_max: int) -> None:
        self.inside = ConnectionQuota(connections_max, ADDRESS_SHARE)
        self._overflow = ConnectionQuota(OVERFLOW_CONNECTIONS_MAX, OVERFLOW_ADDRESS_SHARE)
        self._balancers = ConnectionQuota(OVERFLOW_CONNECTIONS_MAX, ADDRESS_SHARE)

    def enter(self, host: str, is_balancer: bool = False) -> ConnectionQuota | None:
        """The quota that accepted a connection from this host; None if all are full."""
        quotas = (self.inside, self._balancers) if is_balancer else (self.inside, self._overflow)
        return next((quota for quota in quotas if quota.enter(host)), None)


BUFFERED_BYTES_MAX = 64_000_000
UNCOUNTED_BYTES = DOCUMENT_BYTES_MAX


class BodyBudget:
    """Limits the bytes of large bodies in total and per address."""

    def __init__(self, largest_bytes: int) -> None:
        """`largest_bytes`: the largest body that is allowed. Two of them fit, from different addresses."""
        self._bytes_max = max(BUFFERED_BYTES_MAX, 2 * largest_bytes)
        self._by_address: Counter[str] = Counter()
        # of large bodies
        self._counted_bytes = 0
        # of all bodies
        self.buffered_bytes = 0

    def lease(self, host: str) -> "BodyLease":
        """The share of one request."""
        return BodyLease(self, address_block(host))

    def take(self, place: str, buffered_bytes: int, counted_bytes: int) -> bool:
        in_total = self._counted_bytes + counted_bytes
        of_address = self._by_address[place] + counted_bytes
        if counted_bytes and (in_total > self._bytes_max or of_address > self._bytes_max // 2):
            return False
        self._change(place, buffered_bytes, counted_bytes)
        return True

    def give_back(self, place: str, buffered_bytes: int, counted_bytes: int) -> None:
        self._change(place, -buffered_bytes, -counted_bytes)

    def _change(self, place: str, buffered_bytes: int, counted_bytes: int) -> None:
        self.buffered_bytes += buffered_bytes
        self._counted_bytes += counted_bytes
        self._by_address[place] += counted_bytes
        if not self._by_address[place]:
            del self._by_address[place]
        assert self.buffered_bytes >= self._counted_bytes >= 0


class BodyLease:
    """The bytes of one request's body."""

    def __init__(self, budget: BodyBudget, place: str) -> None:
        self._budget = budget
        self._place = place
        self._bytes = 0
        self._released = False

    def take(self, size_bytes: int) -> bool:
        """Count more bytes; false if there is no room. The bytes of a request that is over are not kept."""
        if self._released:
            return True
        counted_bytes = _counted(self._bytes + size_bytes) - _counted(self._bytes)
        if not self._budget.take(self._place, size_bytes, counted_bytes):
            return False
        self._bytes += size_bytes
        return True

    def release(self) -> None:
        """The request is over."""
        if not self._released:
            self._released = True
            self._budget.give_back(self._place, self._bytes, _counted(self._bytes))


def _counted(size_bytes: int) -> int:
    return max(0, size_bytes - UNCOUNTED_BYTES)
