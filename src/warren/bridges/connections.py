"""From the URIs of a definition to a connection: to another broker, or to this one without a socket.

A definition may name several URIs for one end. One of them is tried first, by chance, and the others behind it, so that
bridges spread over the nodes of a cluster and a node that is down is no reason to wait.

`amqp://` without a host is this broker: `amqp://` or `amqp:///vhost`, with the virtual host of the definition if
none is named, and `amqp://user@/vhost` as that user.

Not here: what else a URI may say (`client.uri`).

Whether two ways lead to the same virtual host of the same broker.

Of URIs it is known when they name the same host and port. Two connections are asked, whatever their URIs say: a queue
that is exclusive to one of them is locked to the other one if, and only if, they lead to the same place.

Not here: who must not be connected to himself (`shovels.loops`, `federation.ends`).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote

from warren.bridges.host import BridgeHost
from warren.client.connection import Connection, Dialer
from warren.client.errors import CannotConnect, ChannelClosed, ClientError, UriError
from warren.client.uri import parse_uri

IGNORED_OPTIONS = ("depth", "fail_if_no_peer_cert")
"""Options of RabbitMQ's URIs that ask for what is always so here, or cannot be otherwise."""


@dataclass(frozen=True)
class ReachedBroker:
    """A connection, and the URI that led to it, without its password."""

    connection: Connection
    uri: str
    whole_uri: str = field(repr=False)
    """As it was given, for whoever has to connect once more in the same way."""


async def connect_first(host: BridgeHost, uris: Sequence[str], vhost: str, name: str) -> ReachedBroker:
    """Connect to one of several URIs; `vhost` is for those that name none, `name` is shown to operators over there.

    What is raised if none answers is a `ClientError` whose sentence says what each of them did.
    """
    troubles: list[tuple[str, ClientError]] = []
    for uri in random.sample(list(uris), len(uris)):
        try:
            return ReachedBroker(await connect_uri(host, uri, vhost, name), redacted_uri(uri), uri)
        except ClientError as error:
            troubles.append((redacted_uri(uri), error))
    if len(troubles) == 1:
        raise troubles[0][1]
    raise CannotConnect([(uri, str(error)) for uri, error in troubles])


async def connect_uri(host: BridgeHost, uri: str, vhost: str, name: str) -> Connection:
    """The same for one URI."""
    here = parse_local_uri(uri)
    if here is not None:
        return await host.connect_here(here.vhost or vhost, name, here.user)
    return await Dialer(normalized_uri(uri, vhost), name=name).connect()


@dataclass(frozen=True)
class LocalBrokerUri:
    """This broker as a URI names it; empty is what it does not say."""

    user: str
    vhost: str


def parse_local_uri(uri: str) -> LocalBrokerUri | None:
    """Who and where, if the URI names no host; None if it leads elsewhere."""
    scheme, separator, rest = uri.strip().partition("://")
    before, _, _query = rest.partition("?")
    authority, _, path = before.partition("/")
    login, _, hosts = authority.rpartition("@")
    if scheme.lower() != "amqp" or not separator or hosts:
        return None
    return LocalBrokerUri(unquote(login.partition(":")[0]), unquote(path))


def normalized_uri(uri: str, vhost: str) -> str:
    """A URI as `client.uri` reads it: with a virtual host, and without options that change nothing."""
    before, mark, query = uri.strip().partition("?")
    scheme, separator, rest = before.partition("://")
    if not separator:
        raise UriError("an AMQP URI begins with amqp:// or amqps://")
    if "/" not in rest:
        rest = f"{rest}/{quote(vhost, safe='')}"
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in IGNORED_OPTIONS]
    return f"{scheme}://{rest}" + (mark + "&".join(kept) if kept else "")


def redacted_uri(uri: str) -> str:
    """A URI as it may be shown: without user, password and options, as RabbitMQ shows it."""
    before = uri.strip().partition("?")[0]
    scheme, separator, rest = before.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


RESOURCE_LOCKED: Final = 405
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

Place = tuple[str, int, str]
"""Host, port and virtual host; this broker has no host."""


def uri_places(uri: str, vhost: str) -> set[Place]:
    """Where a URI leads to; `vhost` is for one that names none."""
    here = parse_local_uri(uri)
    if here is not None:
        return {("", 0, here.vhost or vhost)}
    target = parse_uri(normalized_uri(uri, vhost))
    hosts = [(address.host.lower(), address.port) for address in target.addresses]
    return {("localhost" if host in _LOCAL_HOSTS else host, port, target.vhost) for host, port in hosts}


async def is_same_vhost(one: Connection, other: Connection) -> bool:
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
