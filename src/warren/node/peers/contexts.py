"""TLS between nodes: from `cluster.tls.*` to the contexts of a node that listens and of a node that dials.

Every node shows a certificate, and both sides want the other's to be of the authority in `cluster.tls.cacertfile`.

Not here: the files and their faults (`node.tls`); the cookie, which is asked for all the same (`cluster.hello`).
"""

import ssl
from dataclasses import dataclass, replace

from warren.errors import ConfigError
from warren.node.tls import TlsSettings, client_context, server_context

TLS_FAMILY = "cluster.tls"


@dataclass(frozen=True)
class PeerContexts:
    """None, both of them, without TLS."""

    listening: ssl.SSLContext | None = None
    dialling: ssl.SSLContext | None = None


def peer_contexts(settings: TlsSettings) -> PeerContexts:
    """`ConfigError` names the option and file at fault."""
    given = {"certfile": settings.certfile, "keyfile": settings.keyfile, "cacertfile": settings.cacertfile}
    if not any(given.values()):
        return PeerContexts()
    missing = [f"{TLS_FAMILY}.{name}" for name in ("certfile", "cacertfile") if not given[name]]
    if missing:
        raise ConfigError(f"TLS between nodes needs {' and '.join(missing)}, too")
    strict = replace(settings, verify_peer=True, fail_if_no_peer_cert=True, family=TLS_FAMILY)
    return PeerContexts(server_context(strict), client_context(strict))
