"""Who a client is: the outcome of its login, as plain data.

An identity is made by the authentication backend that accepted the login, and read by the one that authorises it. It is
data only, so that it can travel with an event or to another node of the cluster.

Not here: the backends (`broker.access.backends`), the permissions behind an identity (`broker.access.rights`).
"""

from typing import Final, final

INTERNAL: Final = "internal"
OAUTH2: Final = "oauth2"
HTTP: Final = "http"
CACHE: Final = "cache"
"""`http` with answers that are kept for a time."""

NODE: Final = "node"
"""The backend of connections of the node itself, which may do everything."""

NO_USER: Final = "none"
"""The user of connections of the node itself, as RabbitMQ names it."""


@final
class Identity:
    """A client whose login was accepted."""

    def __init__(
        self,
        name: str,
        authn: str = INTERNAL,
        authz: str = INTERNAL,
        tags: list[str] | None = None,
        scopes: list[str] | None = None,
        expires_at_ms: int = 0,
    ) -> None:
        self.name = name
        # the backends that accepted the login, and that decide what the client may do
        self.authn = authn
        self.authz = authz
        # the tags that came with the login. The tags of an internal user are not copied here, because they can change
        self.tags: list[str] = [] if tags is None else tags
        # of a token, without the prefix of the resource server
        self.scopes: list[str] = [] if scopes is None else scopes
        # when the login ends, unless it is renewed; 0 for never
        self.expires_at_ms = expires_at_ms

    def is_internal(self) -> bool:
        """Whether the permissions are those of a user of this broker."""
        return self.authz == INTERNAL

    def answers_later(self) -> bool:
        """Whether the backend that authorises it must ask a web server first."""
        return self.authz in (HTTP, CACHE)

    def has_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_at_ms <= now_ms
