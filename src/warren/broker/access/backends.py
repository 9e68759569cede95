"""The interface of authentication backends, and of clients that wait for a login.

A backend answers four questions: whether credentials are good (authn), and for an identity whether it may enter a
virtual host, what it may do there, and which tags it has (authz). One backend may answer the first question and another
one the rest.

An answer may take time: the waiter is called within the call or later. The answers of `Rights` are given at once; a
permission that must be asked for first is an exception (`broker.access.rights`).

Not here: which backends are asked, in which order (`broker.access.logins`), the users of this broker
(`broker.access.internal_backend`), tokens (`broker.access.token_backend`), web servers (`broker.access.http_backend`).
"""

import ipaddress
from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from warren.broker.access.rights import AnswerWaiter, Rights
from warren.broker.model.identity import Identity

SHOWN_NAME_MAX: Final = 255


def shown_name(user: str) -> str:
    """A refused user's name as it is recorded and logged: strangers choose it, so of a longer one the beginning."""
    return user[:SHOWN_NAME_MAX]


def address_block(host: str) -> str:
    """The unit that counts as one address: an IPv4 address, or the first 64 bits of an IPv6 address.

    One host may have all IPv6 addresses with the same first 64 bits.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


@final
class LoginAttempt:
    """The credentials of a client."""

    def __init__(
        self,
        user: str,
        password: str,
        peer_host: str,
        certificate_name: str,
        external: bool,
        trusted: bool = False,
        identity: Identity | None = None,
    ) -> None:
        self.user = user
        self.password = password
        self.peer_host = peer_host
        # for delays and turns
        self.address = address_block(peer_host)
        self.certificate_name = certificate_name
        # authenticated by other means: a certificate, or the node itself (`trusted`)
        self.external = external
        self.trusted = trusted
        # of a trusted connection, if it is more than the name of an internal user
        self.identity = identity


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """A client or operator that waits for a login."""

    @abstractmethod
    def still_waits(self) -> bool:
        """Whether the client is still connected."""

    @abstractmethod
    def login_accepted(self, identity: Identity) -> None:
        """Called once, or `login_refused` is."""

    @abstractmethod
    def login_refused(self, reason: str) -> None:
        """`reason` is for the log."""


@mypyc_attr(allow_interpreted_subclasses=True)
class AuthBackend:
    """One way to authenticate and authorise clients."""

    def secrets_expire(self) -> bool:
        """Whether a connected client must send a new secret from time to time (connection.update-secret)."""
        return False

    @abstractmethod
    def authenticate(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """Decide whether the credentials are good."""

    @abstractmethod
    def authorise(self, identity: Identity) -> bool:
        """Whether a client that another backend authenticated may log in."""

    def authorise_login(self, attempt: LoginAttempt, identity: Identity, waiter: LoginWaiter) -> None:
        """Decide the same for a login, now or later."""
        if self.authorise(identity):
            waiter.login_accepted(identity)
        else:
            waiter.login_refused(f"user '{identity.name}' - not authorised")

    @abstractmethod
    def may_enter(self, identity: Identity, vhost: str) -> bool:
        """Whether the client may open a connection to this virtual host."""

    def ask_to_enter(self, identity: Identity, vhost: str, peer_host: str, waiter: AnswerWaiter) -> None:
        """Decide the same, now or later."""
        waiter.answered(self.may_enter(identity, vhost))

    @abstractmethod
    def rights(self, identity: Identity, vhost: str) -> Rights:
        """The permissions of the client in this virtual host."""

    @abstractmethod
    def tags(self, identity: Identity) -> list[str]:
        """The current tags of the client."""
