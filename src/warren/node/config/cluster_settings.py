"""The settings of a cluster: `cluster.*`, `cluster_formation.*`, `cluster_partition_handling`, `net_ticktime`, and the
flags `--peer`, `--join`, `--ram`, `--witness`.

`net_ticktime` is the silence after which a connection between nodes is closed. RabbitMQ's default is 60 seconds, ours
3.

A disc node runs a member of etcd, on ports above the node's own, unless `cluster.etcd.endpoints.*` names an external
etcd.

Not here: the keys and their parsers (`node.config.keys`), etcd (`node.etcd`).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from warren.broker.cluster.addresses import PEER_PORT, NodeAddress, PeerAddress, parse_address
from warren.broker.model.settings import RAM
from warren.errors import ConfigError
from warren.node.disk.file_names import COOKIE
from warren.node.listeners import ListenAddress
from warren.node.peers.cookie import LENGTH_MIN
from warren.node.tls import PEER_TLS_FAMILY, TlsFiles, TlsSettings

CLIENT_PORT_OFFSET = 1000
PEER_PORT_OFFSET = 2000
_PORT_MAX = 65535


@dataclass
class EtcdSettings:
    """Where this node's etcd member listens, or where an external etcd is."""

    # empty: the host on which other nodes reach this one
    host: str = ""
    # 0: an offset above the port on which other nodes reach this one
    client_port: int = 0
    peer_port: int = 0
    # empty: the one on the path
    binary: str = ""
    # of an external etcd; then this node runs none
    endpoints: list[str] = field(default_factory=list)
    user: str = ""
    password: str = field(default="", repr=False)
    tls: TlsFiles | None = None

    def listens(self, node: PeerAddress) -> tuple[str, int, int]:
        """Host, client port and peer port of the member of a node that others reach there; 0: any free port."""
        return (
            self.host or node.host,
            self.client_port or _above(node.port, CLIENT_PORT_OFFSET),
            self.peer_port or _above(node.port, PEER_PORT_OFFSET),
        )


def etcd_settings(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> EtcdSettings:
    """From the file and the environment."""
    settings = EtcdSettings(
        host=values.get("etcd.host", ""),
        client_port=values.get("etcd.client_port", 0),
        peer_port=values.get("etcd.peer_port", 0),
        binary=values.get("etcd.binary", ""),
        endpoints=list(families.get("etcd.endpoints", {}).values()),
        user=values.get("etcd.user", ""),
        password=values.get("etcd.password", ""),
        tls=_etcd_tls(values, runs_member="etcd.endpoints" not in families),
    )
    if settings.client_port and settings.client_port == settings.peer_port:
        raise ConfigError("cluster.etcd.client_port and cluster.etcd.peer_port must be two ports")
    return settings


def _etcd_tls(values: Mapping[str, Any], runs_member: bool) -> TlsFiles | None:
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


CLASSIC_CONFIG = "classic_config"
DNS = "dns"
DISCOVERY_BACKENDS = {
    CLASSIC_CONFIG: CLASSIC_CONFIG,
    "rabbit_peer_discovery_classic_config": CLASSIC_CONFIG,
    DNS: DNS,
    "rabbit_peer_discovery_dns": DNS,
}
WITNESS = "witness"
PAUSE_MINORITY = "pause_minority"
PARTITION_HANDLINGS = {
    "ignore": "ignore",
    PAUSE_MINORITY: PAUSE_MINORITY,
    "pause": PAUSE_MINORITY,
    "pause_if_all_down": "pause_if_all_down",
    "autoheal": "autoheal",
}
RECOVERIES = ("ignore", "autoheal")
DEFAULT_SILENCE_S = 3


@dataclass
class ClusterSettings:
    """How a node finds others, and what it does without them."""

    peer_listener: ListenAddress = field(default_factory=lambda: ListenAddress("", PEER_PORT))
    # whether the operator chose the port; otherwise the node may run without it
    peer_asked_for: bool = field(default=False, compare=False)
    join: list[PeerAddress] = field(default_factory=list)
    ram: bool = False
    witness: bool = False
    # empty: in the file
    cookie: str = field(default="", repr=False)
    cookie_file: str = COOKIE
    silence_s: int = DEFAULT_SILENCE_S
    tls: TlsSettings = field(default_factory=lambda: TlsSettings(family=PEER_TLS_FAMILY))
    discovery: str = CLASSIC_CONFIG
    discovery_nodes: list[NodeAddress] = field(default_factory=list)
    discovery_hostname: str = ""
    partition_handling: str = "ignore"
    # of pause_if_all_down: the nodes' names, and what follows when they are back
    pause_nodes: list[str] = field(default_factory=list)
    pause_recovery: str = "ignore"
    etcd: EtcdSettings = field(default_factory=EtcdSettings)


class ClusterFlags(Protocol):
    """The cluster flags of the command line."""

    @property
    def peer(self) -> str: ...

    @property
    def join(self) -> Sequence[str]: ...

    @property
    def ram(self) -> bool: ...

    @property
    def witness(self) -> bool: ...


def cluster_settings(
    values: Mapping[str, Any],
    families: Mapping[str, Mapping[str, Any]],
    data_dir: str,
    listener: ListenAddress,
    flags: ClusterFlags,
) -> ClusterSettings:
    """From the file, the environment and the flags; the listen address is already known."""
    settings = ClusterSettings(
        peer_listener=listener,
        peer_asked_for=bool(flags.peer),
        join=[_join_addresses(text) for text in flags.join],
        ram=flags.ram or values.get("cluster.node_type") == RAM,
        witness=flags.witness or values.get("cluster.node_type") == WITNESS,
        cookie=values.get("cluster.cookie", ""),
        cookie_file=values.get("cluster.cookie_file") or os.path.join(data_dir, COOKIE),
        silence_s=values.get("cluster.silence_s", DEFAULT_SILENCE_S),
        tls=_peer_tls(values),
        discovery=DISCOVERY_BACKENDS[values.get("cluster.discovery", CLASSIC_CONFIG)],
        discovery_nodes=list(families.get("cluster.nodes", {}).values()),
        discovery_hostname=values.get("cluster.dns_hostname", ""),
        partition_handling=PARTITION_HANDLINGS[values.get("cluster.partition_handling", "ignore")],
        pause_nodes=list(families.get("cluster.pause_nodes", {}).values()),
        pause_recovery=values.get("cluster.pause_recovery", "ignore"),
        etcd=etcd_settings(values, families),
    )
    _check(settings)
    return settings


def _join_addresses(text: str) -> PeerAddress:
    try:
        return parse_address(text)
    except ValueError as error:
        raise ConfigError(f"--join must be {error}, not {text!r}") from error


def _peer_tls(values: Mapping[str, Any]) -> TlsSettings:
    chosen = {name.removeprefix("peer_tls."): value for name, value in values.items() if name.startswith("peer_tls.")}
    return TlsSettings(**chosen, family=PEER_TLS_FAMILY)


def _check(settings: ClusterSettings) -> None:
    """Checks across several values, and of secrets, which a parser would show in its error."""
    if settings.ram and settings.witness:
        raise ConfigError("a witness keeps definitions on its disk, and a RAM node does not: choose one of the two")
    if settings.cookie and len(settings.cookie.encode()) < LENGTH_MIN:
        raise ConfigError(f"cluster.cookie must have {LENGTH_MIN} characters or more")
    if settings.discovery == DNS and not settings.discovery_hostname:
        raise ConfigError("cluster_formation.peer_discovery_backend = dns needs cluster_formation.dns.hostname")
    if settings.partition_handling == "pause_if_all_down" and not settings.pause_nodes:
        raise ConfigError(
            "cluster_partition_handling = pause_if_all_down needs cluster_partition_handling.pause_if_all_down.nodes.1"
        )
