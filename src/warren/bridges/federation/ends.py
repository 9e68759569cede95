"""What both kinds of links ask of their two ends.

Not here: connecting (`bridges.connecting`).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from warren.bridges.connecting import Reached, this_broker
from warren.bridges.host import Host
from warren.bridges.same_place import are_same_place
from warren.client.connection import Connection


def upstream_vhost(uri: str, own: str) -> str:
    """The virtual host that a URI leads to; one that names none means the same as here."""
    authority, slash, path = uri.partition("://")[2].partition("/")
    if path:
        return unquote(path)
    return "/" if authority and slash else own


@dataclass(frozen=True)
class Federating:
    """What is federated, and what it is called upstream."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    upstream_name: str

    def check_uris(self, uris: Sequence[str]) -> None:
        """A `ValueError` if one of them names no host, and leads from a thing to itself."""
        for uri in uris:
            here = this_broker(uri)
            if here is not None and (here.vhost or self.vhost) == self.vhost and self.name == self.upstream_name:
                raise ValueError(self._sentence())

    async def check_upstream(self, host: Host, reached: Reached, connection_name: str) -> None:
        """The same of a URI that names a host: a cluster of the same name is asked whether it is this one."""
        source = reached.connection
        if self.name != self.upstream_name or upstream_vhost(reached.uri, self.vhost) != self.vhost:
            return
        if cluster_of(source) != host.cluster_name:
            return
        async with await host.connect_here(self.vhost, connection_name, "") as here:
            if await are_same_place(here, source):
                raise ValueError(self._sentence())

    def _sentence(self) -> str:
        itself = f"{self.kind} {self.name!r} of virtual host {self.vhost!r}"
        return f"{itself} is its own upstream: give the upstream another URI, or another {self.kind}"


def cluster_of(connection: Connection) -> str:
    """The name of the upstream's cluster, by which loops are known; empty for brokers that have none."""
    name = connection.server_properties.get("cluster_name")
    return name if isinstance(name, str) else ""


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
