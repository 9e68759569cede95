"""From the URIs of a definition to a connection: to another broker, or to this one without a socket.

A definition may name several URIs for one end. One of them is tried first, by chance, and the others behind it, so that
bridges spread over the nodes of a cluster and a node that is down is no reason to wait.

`amqp://` without a host is this broker: `amqp://` or `amqp:///vhost`, with the virtual host of the definition if
none is named, and `amqp://user@/vhost` as that user.

Not here: what else a URI may say (`client.uri`).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from warren.bridges.host import Host
from warren.client.connecting import Dialer
from warren.client.connection import Connection
from warren.client.errors import CannotConnect, ClientError, UriError

IGNORED_OPTIONS = ("depth", "fail_if_no_peer_cert")
"""Options of RabbitMQ's URIs that ask for what is always so here, or cannot be otherwise."""


@dataclass(frozen=True)
class Reached:
    """A connection, and the URI that led to it, without its password."""

    connection: Connection
    uri: str
    whole_uri: str = field(repr=False)
    """As it was given, for whoever has to connect once more in the same way."""


async def reach(host: Host, uris: Sequence[str], vhost: str, name: str) -> Reached:
    """Connect to one of several URIs; `vhost` is for those that name none, `name` is shown to operators over there.

    What is raised if none answers is a `ClientError` whose sentence says what each of them did.
    """
    troubles: list[tuple[str, ClientError]] = []
    for uri in random.sample(list(uris), len(uris)):
        try:
            return Reached(await connect(host, uri, vhost, name), without_password(uri), uri)
        except ClientError as error:
            troubles.append((without_password(uri), error))
    if len(troubles) == 1:
        raise troubles[0][1]
    raise CannotConnect([(uri, str(error)) for uri, error in troubles])


async def connect(host: Host, uri: str, vhost: str, name: str) -> Connection:
    """The same for one URI."""
    here = this_broker(uri)
    if here is not None:
        return await host.connect_here(here.vhost or vhost, name, here.user)
    return await Dialer(far_uri(uri, vhost), name=name).connect()


@dataclass(frozen=True)
class Here:
    """This broker as a URI names it; empty is what it does not say."""

    user: str
    vhost: str


def this_broker(uri: str) -> Here | None:
    """Who and where, if the URI names no host; None if it leads elsewhere."""
    scheme, separator, rest = uri.strip().partition("://")
    before, _, _query = rest.partition("?")
    authority, _, path = before.partition("/")
    login, _, hosts = authority.rpartition("@")
    if scheme.lower() != "amqp" or not separator or hosts:
        return None
    return Here(unquote(login.partition(":")[0]), unquote(path))


def far_uri(uri: str, vhost: str) -> str:
    """A URI as `client.uri` reads it: with a virtual host, and without options that change nothing."""
    before, mark, query = uri.strip().partition("?")
    scheme, separator, rest = before.partition("://")
    if not separator:
        raise UriError("an AMQP URI begins with amqp:// or amqps://")
    if "/" not in rest:
        rest = f"{rest}/{quote(vhost, safe='')}"
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in IGNORED_OPTIONS]
    return f"{scheme}://{rest}" + (mark + "&".join(kept) if kept else "")


def without_password(uri: str) -> str:
    """A URI as it may be shown: without user, password and options, as RabbitMQ shows it."""
    before = uri.strip().partition("?")[0]
    scheme, separator, rest = before.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"
