"""Settings of the HTTP server as plain values.

Not here: reading them (`node.config`), listeners (`node.http_listeners`).
"""

from dataclasses import dataclass, field

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
    # a body has this long, and longer while it arrives at this rate
    body_patience_s: float = 30.0
    body_bytes_a_second: int = 10_000
    # for a response that is not read, and for a connection that is not closed
    unread_patience_s: float = 30.0
    look_every_s: float = 1.0


@dataclass(frozen=True)
class CrossOrigin:
    """`management.cors.*`: the sites whose pages may use the API."""

    allowed: list[str] = field(default_factory=list)
    max_age_s: int = 1800

    def allows(self, origin: str) -> bool:
        return bool(origin) and ("*" in self.allowed or origin in self.allowed)


@dataclass(frozen=True)
class ApplicationSettings:
    """`management.http.max_body_size`, `management.cors.*` and `management.allow_hosts.*`."""

    body_bytes_max: int = BODY_BYTES_MAX
    cross_origin: CrossOrigin = field(default_factory=CrossOrigin)
