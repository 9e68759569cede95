"""Whether two connections lead to the same virtual host of the same broker, whatever their URIs say.

A queue that is exclusive to one connection is locked to another one if, and only if, they do.

Not here: who must not be connected to himself (`shovels.loops`, `federation.ends`).
"""

from typing import Final

from warren.client.connection import Connection
from warren.client.errors import ChannelClosed

RESOURCE_LOCKED: Final = 405


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
