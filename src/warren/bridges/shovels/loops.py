"""A shovel that would carry to where it takes from, and so the same messages for ever.

What was taken comes to the same queue again if the destination is that queue, by its name or through the default
exchange, or the exchange it came through with the key it came with. That is a loop only if both ends are one broker.
Some URIs say so (both name no host, or the same host and port). Others do not, and are asked when both ends are
connected (`bridges.same_place`).

What exchanges do with other keys nobody asks, and a loop through several shovels nobody can know of.

Not here: hops of federated exchanges, which are counted (`bridges.federation`).
"""

from typing import Final

from warren.bridges.same_place import Place, are_same_place, places
from warren.bridges.shovels.definition import DEFAULT_VHOST, Definition
from warren.client.connection import Connection
from warren.client.errors import ClientError

DEFAULT_EXCHANGE: Final = ""


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
    exchange, key = destination.exchange, destination.exchange_key
    if source.queue is None:
        return exchange in (None, source.exchange) and key in (None, source.exchange_key)
    # by the default exchange it comes to the queue that its key names, and so it came, if it was published there
    return exchange in (None, DEFAULT_EXCHANGE) and key in (None, source.queue)


async def check_ends(shovel: Definition, source: Connection, destination: Connection) -> None:
    """Raises `ShovelToItself` if the two connections make a loop of it."""
    if goes_back(shovel) and await are_same_place(source, destination):
        raise ShovelToItself(_sentence(shovel))


def _sentence(shovel: Definition) -> str:
    source = shovel.source
    what = f"queue '{source.queue}'" if source.queue is not None else f"exchange '{source.exchange}'"
    return (
        f"a shovel from {what} to itself would carry the same messages for ever; "
        "name another queue, exchange, virtual host or broker as its destination"
    )


def _places(uris: tuple[str, ...]) -> set[Place]:
    return {place for uri in uris for place in places(uri, DEFAULT_VHOST)}
