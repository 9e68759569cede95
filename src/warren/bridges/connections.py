"""Connections for bridges: from the URIs of a definition to a connection, either to another broker or to this one
without a socket.

A definition may list several URIs for one end. A random one is tried first and the others after it, so bridges spread
over the nodes of a cluster and a node that is down costs no wait.

`amqp://` without a host means this broker: `amqp://` or `amqp:///vhost`, with the virtual host of the definition if the
URI has none, and `amqp://user@/vhost` to connect as that user. Such a connection needs no password, so it has no more
permissions than the user who defined the bridge: it is a connection of that user, and only an administrator may name
another one. RabbitMQ gives it all permissions.

A URI may name files of the node's machine (`cacertfile`, `certfile`, `keyfile`). Only an administrator may use them:
the errors about a file tell whether it exists, and a certificate is an identity.

Two URIs lead to the same virtual host if they name the same host and port. Two open connections are compared by an
exclusive queue: it is locked for the other connection if and only if both lead to the same virtual host.

Not here: the other parts of a URI (`client.uri`), loops (`bridges.shovel_definition`, `bridges.federation.links`).
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
"""Options of RabbitMQ's URIs that have no effect here."""


@dataclass(frozen=True)
class ReachedBroker:
    """A connection, and the URI it was made with, without the password."""

    connection: Connection
    uri: str
    whole_uri: str = field(repr=False)
    """The URI as configured, with the password, for a further connection."""


class BridgeNotPermitted(ClientError):
    """The user who defined the bridge may not do what it was defined to do."""


async def connect_first(
    host: BridgeHost, uris: Sequence[str], vhost: str, name: str, definer: str | None
) -> ReachedBroker:
    """Connect to one of several URIs. `vhost` is for URIs that have none; `name` is shown to operators of the other
    broker; `definer` is that of the parameter with the URIs.

    If no URI answers, the `ClientError` says what happened with each of them.
    """
    troubles: list[tuple[str, ClientError]] = []
    for uri in random.sample(list(uris), len(uris)):
        try:
            return ReachedBroker(await connect_uri(host, uri, vhost, name, definer), redacted_uri(uri), uri)
        except ClientError as error:
            troubles.append((redacted_uri(uri), error))
    if len(troubles) == 1:
        raise troubles[0][1]
    raise CannotConnect([(uri, str(error)) for uri, error in troubles])


async def connect_uri(host: BridgeHost, uri: str, vhost: str, name: str, definer: str | None) -> Connection:
    """Connect to one URI."""
    here = parse_local_uri(uri)
    if here is not None:
        return await connect_here(host, here.vhost or vhost, name, definer, here.user)
    if names_files(uri) and not acts_as_administrator(host, definer):
        raise BridgeNotPermitted(f"{_defined_by(definer)}, and {FILES_REFUSED}")
    return await Dialer(normalized_uri(uri, vhost), name=name).connect()


async def connect_here(
    host: BridgeHost, vhost: str, name: str, definer: str | None, named_user: str = ""
) -> Connection:
    """Connect to this broker with the permissions of the definer, or of the user in the URI."""
    if definer is None:
        raise BridgeNotPermitted("its definer, whose permissions it would have here, is not known: set it again")
    if definer and not host.has_user(definer):
        raise BridgeNotPermitted(f"{_defined_by(definer)}, who does not exist: another user has to set it again")
    if named_user and named_user != definer and not acts_as_administrator(host, definer):
        raise BridgeNotPermitted(f"{_defined_by(definer)}, who may not connect as {named_user!r}")
    return await host.connect_here(vhost, name, named_user or definer)


FILES_REFUSED: Final = "only an administrator may name files of this machine in a URI"


def names_files(uri: str) -> bool:
    """Whether a valid URI names files of this machine."""
    if parse_local_uri(uri) is not None:
        return False
    target = parse_uri(normalized_uri(uri, "/"))
    return bool(target.cacertfile or target.certfile or target.keyfile)


def acts_as_administrator(host: BridgeHost, definer: str | None) -> bool:
    """Whether the definer of a parameter is an administrator. The node itself counts as one."""
    return definer == "" or (definer is not None and host.is_administrator(definer))


def _defined_by(definer: str | None) -> str:
    return "its definer is not known" if definer is None else f"it was defined by the user {definer!r}"


@dataclass(frozen=True)
class LocalBrokerUri:
    """This broker as a URI names it; parts that the URI leaves out are empty."""

    user: str
    vhost: str


def parse_local_uri(uri: str) -> LocalBrokerUri | None:
    """User and virtual host, if the URI names no host; None if it leads to another broker."""
    scheme, separator, rest = uri.strip().partition("://")
    before, _, _query = rest.partition("?")
    authority, _, path = before.partition("/")
    login, _, hosts = authority.rpartition("@")
    if scheme.lower() != "amqp" or not separator or hosts:
        return None
    return LocalBrokerUri(unquote(login.partition(":")[0]), unquote(path))


def normalized_uri(uri: str, vhost: str) -> str:
    """A URI as `client.uri` reads it: with a virtual host, and without options that have no effect."""
    before, mark, query = uri.strip().partition("?")
    scheme, separator, rest = before.partition("://")
    if not separator:
        raise UriError("an AMQP URI begins with amqp:// or amqps://")
    if "/" not in rest:
        rest = f"{rest}/{quote(vhost, safe='')}"
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in IGNORED_OPTIONS]
    return f"{scheme}://{rest}" + (mark + "&".join(kept) if kept else "")


def redacted_uri(uri: str) -> str:
    """A URI for display: without user, password and options, as in RabbitMQ."""
    before = uri.strip().partition("?")[0]
    scheme, separator, rest = before.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


RESOURCE_LOCKED: Final = 405
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

Place = tuple[str, int, str]
"""Host, port and virtual host; this broker has no host."""


def uri_places(uri: str, vhost: str) -> set[Place]:
    """The places a URI leads to; `vhost` is for a URI that has none."""
    here = parse_local_uri(uri)
    if here is not None:
        return {("", 0, here.vhost or vhost)}
    target = parse_uri(normalized_uri(uri, vhost))
    hosts = [(address.host.lower(), address.port) for address in target.addresses]
    return {("localhost" if host in _LOCAL_HOSTS else host, port, target.vhost) for host, port in hosts}


async def is_same_vhost(one: Connection, other: Connection) -> bool:
    """Whether both connections lead to one virtual host. False if the user may not declare a queue there: most are
    different."""
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
