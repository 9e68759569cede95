"""What both kinds of links ask of their two ends.

Not here: connecting (`bridges.connecting`).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from urllib.parse import unquote

from warren.bridges.connecting import this_broker


def upstream_vhost(uri: str, own: str) -> str:
    """The virtual host that a URI leads to; one that names none means the same as here."""
    authority, slash, path = uri.partition("://")[2].partition("/")
    if path:
        return unquote(path)
    return "/" if authority and slash else own


def check_not_itself(kind: str, vhost: str, name: str, upstream_name: str, uris: Sequence[str]) -> None:
    """A `ValueError` if what is federated would take from itself."""
    for uri in uris:
        here = this_broker(uri)
        if here is not None and (here.vhost or vhost) == vhost and name == upstream_name:
            itself = f"{kind} {name!r} of virtual host {vhost!r}"
            raise ValueError(f"{itself} is its own upstream: give the upstream another URI, or another {kind}")


async def one_of_them_ends(*parts: Coroutine[object, object, None]) -> None:
    """Run them together until one returns or raises; the others are cancelled, and have ended when this does."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
