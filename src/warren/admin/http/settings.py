"""Settings of the HTTP server as plain values.

Not here: reading them (`node.config`), listeners (`node.http_listeners`).
"""

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BODY_BYTES_MAX = 20_000_000
"""The largest body, unless configured: a definitions file, or a message to publish."""
DOCUMENT_BYTES_MAX = 64 * 1024
"""The largest body of other requests. A queue, a policy or a user fits easily; AMQP frames are no larger."""
LARGE_DOCUMENT_VALUES_MAX = 10_000
"""The most values in a larger document: its size must come from a message's body."""
LOGIN_BYTES_MAX = 4 * 1024
"""The largest body without a login."""
QUERY_FIELDS_MAX = 100
"""Of a query or a form."""
FITNESS_PATH = "/api/warren/fitness"
"""The path that load balancers ask. It is answered even when all connections are in use."""


@dataclass(frozen=True)
class HttpLimits:
    """`management.tcp.*_timeout`, and limits without a setting."""

    # from the first byte of a request to the end of its head
    request_timeout_s: float = 10.0
    # between two requests
    idle_timeout_s: float = 60.0
    connections_max: int = 1000
    # from the end of a request's head to the end of its body, however long it is
    body_timeout_s: float = 60.0
    # for a response that is not read, and for a connection that is not closed
    unread_patience_s: float = 30.0
    look_every_s: float = 1.0


@dataclass(frozen=True)
class CrossOrigin:
    """`management.cors.*`: the sites whose pages may use the API.

    `*` allows every site to read and change with a login that the page itself has, and not with one that the browser
    remembers: a browser adds that to the requests of any page.
    """

    allowed: list[str] = field(default_factory=list)
    max_age_s: int = 1800

    def names(self, origin: str) -> bool:
        """Whether pages of this origin may also use a login that the browser remembers."""
        return bool(origin) and origin != "*" and origin in self.allowed

    @property
    def allows_all(self) -> bool:
        return "*" in self.allowed


@dataclass(frozen=True)
class HostNames:
    """The names by which clients on this machine may address the node.

    A page of another site can resolve the name of that site to the loopback address (DNS rebinding). To the browser its
    requests to this node are then requests to that site, and `guest` may log in. Only the header `host` tells them
    apart. An address is no name and cannot be rebound.
    """

    # `management.allow_hosts.*`, and the names of the machine
    allowed: frozenset[str] = frozenset()

    def include(self, host_header: str) -> bool:
        host = host_header.rpartition(":")[0] if _PORT.search(host_header) else host_header
        name = host.lower().rstrip(".")
        if not name or name == "localhost" or name.endswith(".localhost"):
            return True
        return "*" in self.allowed or name in self.allowed or _is_address(name.strip("[]"))


_PORT = re.compile(r":\d*\Z")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class PagesLogin:
    """`management.oauth_*` and `management.disable_basic_auth`: how users log in to the pages, and to the API."""

    enabled: bool = False
    client_id: str = ""
    # browsers get it, so it is no secret; some issuers demand one
    client_secret: str = field(default="", repr=False)
    provider_url: str = ""
    metadata_url: str = ""
    scopes: str = "openid profile"
    # the pages begin the login, and not the issuer
    initiated_logon_type: str = "sp_initiated"
    # the API takes tokens only
    disable_basic_auth: bool = False

    @property
    def discovery_url(self) -> str:
        """Where the issuer says how to log in."""
        return self.metadata_url or f"{self.provider_url.rstrip('/')}/.well-known/openid-configuration"

    @property
    def issuer_origins(self) -> list[str]:
        """The sites that the pages ask for a token."""
        parts = [urlsplit(url) for url in (self.metadata_url, self.provider_url) if url] if self.enabled else []
        return list(dict.fromkeys(f"{part.scheme}://{part.netloc}" for part in parts))


@dataclass(frozen=True)
class ApplicationSettings:
    """`management.http.max_body_size`, `management.cors.*`, `management.allow_hosts.*` and the login of the pages."""

    body_bytes_max: int = BODY_BYTES_MAX
    cross_origin: CrossOrigin = field(default_factory=CrossOrigin)
    hosts: HostNames = field(default_factory=HostNames)
    pages_login: PagesLogin = field(default_factory=PagesLogin)
