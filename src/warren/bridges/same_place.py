"""Whether two ways lead to the same virtual host of the same broker.

Of URIs it is known when they name the same host and port. Two connections are asked, whatever their URIs say: a queue
that is exclusive to one of them is locked to the other one if, and only if, they lead to the same place.

Not here: who must not be connected to himself (`shovels.loops`, `federation.ends`).
"""

from typing import Final

from warren.bridges.connecting import far_uri, this_broker
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed
from warren.client.uri import parse_uri

RESOURCE_LOCKED: Final = 405
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

Place = tuple[str, int, str]
"""Host, port and virtual host; this broker has no host."""


def places(uri: str, vhost: str) -> set[Place]:
    """Where a URI leads to; `vhost` is for one that names none."""
    here = this_broker(uri)
    if here is not None:
        return {("", 0, here.vhost or vhost)}
    target = parse_uri(far_uri(uri, vhost))
    hosts = [(address.host.lower(), address.port) for address in target.addresses]
    return {("localhost" if host in _LOCAL_HOSTS else host, port, target.vhost) for host, port in hosts}


async def are_same_place(one: Connection, other: Connection) -> bool:
    """No, if a user may declare nothing there: then nobody can tell, and most are not."""
    asking = await one.channel()
    try:
        probe = await asking.declare_queue(exclusive=True)
    except ChannelClosed:
        return False
    async with asking:
        answering = await other.channel()
        try:
            await answering.declare_queue(probe.name, passive=True)
        except ChannelClosed as refusal:
            return refusal.code == RESOURCE_LOCKED
        finally:
            await asking.delete_queue(probe.name)
    return False
