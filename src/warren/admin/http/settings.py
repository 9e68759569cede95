"""What an operator may set about the HTTP server, as plain values.

Not here: where the values come from (`node.config`), where the server listens (`node.http_listeners`).
"""

from dataclasses import dataclass, field

BODY_BYTES_MAX = 20_000_000
FITNESS_PATH = "/api/warren/fitness"
"""What a load balancer asks, and is answered however many connections there are."""


@dataclass(frozen=True)
class HttpLimits:
    """`management.tcp.*_timeout`, and what nobody needs to set."""

    # from the first byte of a request to the end of its head
    request_timeout_s: float = 10.0
    # between two requests
    idle_timeout_s: float = 60.0
    connections_max: int = 1000
    # a body has this long, and beyond that as long as it comes at this rate
    body_patience_s: float = 30.0
    body_bytes_a_second: int = 10_000
    # an answer that is not read, and a connection that is not closed
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
    """`management.http.max_body_size` and `management.cors.*`."""

    body_bytes_max: int = BODY_BYTES_MAX
    cross_origin: CrossOrigin = field(default_factory=CrossOrigin)
