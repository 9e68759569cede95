"""A shovel that would carry to where it takes from, and so the same messages for ever.

What was taken comes to the same queue again if the destination is that queue, or the exchange it came through with the
key it came with. That is a loop only if both ends are one broker. Some URIs say so (both name no host, or the same
host and port). Others do not, and are asked when both ends are connected: a queue that is exclusive to one connection
is locked to the other one if, and only if, the two are connected to the same virtual host of the same broker.

Not here: hops of federated exchanges, which are counted (`bridges.federation`).
"""

from typing import Final

from warren.bridges.connecting import far_uri, this_broker
from warren.bridges.shovels.definition import DEFAULT_VHOST, Definition
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ClientError
from warren.client.uri import parse_uri

RESOURCE_LOCKED: Final = 405
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

Place = tuple[str, int, str]
"""Host, port and virtual host; this broker has no host."""


class ShovelToItself(ClientError):
    """It would never end, and is not begun."""


def refusal_of_loop(shovel: Definition) -> list[str]:
    """Why a shovel whose URIs lead to one place is refused, if it is."""
    if not goes_back(shovel):
        return []
    shared = _places(shovel.source.uris) & _places(shovel.destination.uris)
    return [_sentence(shovel)] if shared else []


def goes_back(shovel: Definition) -> bool:
    """Whether it is a loop if both its ends are the same virtual host of one broker."""
    source, destination = shovel.source, shovel.destination
    if destination.queue is not None:
        return destination.queue == source.queue
    if destination.exchange_key is not None:
        return False
    return destination.exchange is None or destination.exchange == source.exchange


async def check_ends(shovel: Definition, source: Connection, destination: Connection) -> None:
    """Raises `ShovelToItself` if the two connections make a loop of it."""
    if goes_back(shovel) and await _are_one_place(source, destination):
        raise ShovelToItself(_sentence(shovel))


async def _are_one_place(source: Connection, destination: Connection) -> bool:
    asking = await source.channel()
    try:
        probe = await asking.declare_queue(exclusive=True)
    except ChannelClosed:
        # a user who may declare nothing there: nobody can tell, and most shovels are none of those
        return False
    async with asking:
        other = await destination.channel()
        try:
            await other.declare_queue(probe.name, passive=True)
        except ChannelClosed as refusal:
            return refusal.code == RESOURCE_LOCKED
        finally:
            await asking.delete_queue(probe.name)
    return False


def _sentence(shovel: Definition) -> str:
    source = shovel.source
    what = f"queue '{source.queue}'" if source.queue is not None else f"exchange '{source.exchange}'"
    return (
        f"a shovel from {what} to itself would carry the same messages for ever; "
        "name another queue, exchange, virtual host or broker as its destination"
    )


def _places(uris: tuple[str, ...]) -> set[Place]:
    found: set[Place] = set()
    for uri in uris:
        here = this_broker(uri)
        if here is not None:
            found.add(("", 0, here.vhost or DEFAULT_VHOST))
            continue
        target = parse_uri(far_uri(uri, DEFAULT_VHOST))
        for address in target.addresses:
            host = "localhost" if address.host.lower() in _LOCAL_HOSTS else address.host.lower()
            found.add((host, address.port, target.vhost))
    return found
