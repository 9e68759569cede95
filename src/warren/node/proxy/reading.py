"""Reading a PROXY header from a socket that was just accepted, and not a byte more.

Not here: what the header says (`proxy.header`), who has to send one (`proxy.balancers`).
"""

import asyncio
import socket

from warren.node.proxy.balancers import believed
from warren.node.proxy.header import Ends, HeaderReader, HeaderRefused


class HungUp(Exception):
    """Nothing came: somebody looked whether the port is open."""


async def read_header(
    loop: asyncio.AbstractEventLoop, accepted: socket.socket, balancer: str, patience_s: float
) -> Ends | None:
    """Whom this host speaks for; nobody: for itself, or it does not say. `HeaderRefused`, `HungUp` or `OSError`."""
    reader = HeaderReader()
    try:
        async with asyncio.timeout(patience_s):
            while reader.wanted:
                data = await loop.sock_recv(accepted, reader.wanted)
                if not data:
                    raise HeaderRefused("it ended before its end") if reader.begun else HungUp
                reader.feed(data)
    except TimeoutError:
        raise HeaderRefused(f"it did not come within {patience_s:g} s") from None
    return believed(reader.ends, balancer)
