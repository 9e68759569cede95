"""The settings of the store that nodes of a cluster share: `cluster.etcd.*`.

A disc node runs a member of etcd, on ports above that of the node, unless `cluster.etcd.endpoints.*` says that somebody
else runs one.

Not here: the keys and their parsers (`config.keys`), etcd (`node.etcd`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from warren.cluster.addresses import PeerAddress
from warren.errors import ConfigError
from warren.node.tls import TlsFiles

CLIENT_PORT_OFFSET = 1000
PEER_PORT_OFFSET = 2000
_PORT_MAX = 65535


@dataclass
class EtcdSettings:
    """Where this node's member listens, or where another etcd is to be found."""

    # empty: where other nodes reach this one
    host: str = ""
    # 0: so far above the port on which other nodes reach this one
    client_port: int = 0
    peer_port: int = 0
    # empty: the one of this machine
    binary: str = ""
    # of an etcd that somebody else runs; then this node runs none
    endpoints: list[str] = field(default_factory=list)
    user: str = ""
    password: str = field(default="", repr=False)
    tls: TlsFiles | None = None

    def listens(self, node: PeerAddress) -> tuple[str, int, int]:
        """Host, port for clients and port for other members of a node that others reach there; 0: any free port."""
        return (
            self.host or node.host,
            self.client_port or _above(node.port, CLIENT_PORT_OFFSET),
            self.peer_port or _above(node.port, PEER_PORT_OFFSET),
        )


def etcd_settings(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> EtcdSettings:
    """What was gathered from the file and the environment."""
    settings = EtcdSettings(
        host=values.get("etcd.host", ""),
        client_port=values.get("etcd.client_port", 0),
        peer_port=values.get("etcd.peer_port", 0),
        binary=values.get("etcd.binary", ""),
        endpoints=list(families.get("etcd.endpoints", {}).values()),
        user=values.get("etcd.user", ""),
        password=values.get("etcd.password", ""),
        tls=_tls(values, runs_member="etcd.endpoints" not in families),
    )
    if settings.client_port and settings.client_port == settings.peer_port:
        raise ConfigError("cluster.etcd.client_port and cluster.etcd.peer_port must be two ports")
    return settings


def _tls(values: Mapping[str, Any], runs_member: bool) -> TlsFiles | None:
    files = TlsFiles(
        authorities=values.get("etcd_tls.cacertfile", ""),
        certificate=values.get("etcd_tls.certfile", ""),
        key=values.get("etcd_tls.keyfile", ""),
    )
    if files == TlsFiles():
        return None
    if not files.authorities:
        raise ConfigError("TLS with etcd needs cluster.etcd.tls.cacertfile, too")
    if bool(files.certificate) != bool(files.key) or (runs_member and not files.key):
        raise ConfigError("TLS with etcd needs both cluster.etcd.tls.certfile and cluster.etcd.tls.keyfile")
    return files


def _above(port: int, offset: int) -> int:
    return port + offset if port + offset <= _PORT_MAX else 0
