"""Files of a node's machine: its part of /etc/warren/warren.conf, the systemd unit, its user and directories.

    /etc/warren        its configuration, readable by the user `warren`, writable by root only
    /var/lib/warren    its data, the cookie and the etcd member
    the journal        its log: `journalctl -u warren`

A disc node of a cluster has a second process in the same unit, its etcd member. The node starts it and it outlives the
node (`KillMode=process`), so a restart of the node causes no election. A witness differs only in its configuration.

Not here: notifications to systemd (`node.process`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from warren.cli.ha.deployment import (
    AMQP,
    AMQPS,
    HTTP,
    HTTPS,
    METRICS,
    PEER,
    PROGRAM,
    RAM,
    USUAL_PORTS,
    WITNESS,
    BrokerNode,
    Deployment,
    endpoint,
)
from warren.errors import ConfigError

_TLS_FAMILIES = {AMQPS: "ssl_options", HTTPS: "management.ssl"}


def node_config(deployment: Deployment, node: BrokerNode) -> str:
    """The text of warren.conf; a node that already has one needs these lines in it."""
    return "\n".join(_lines(deployment, node)) + "\n"


def _lines(deployment: Deployment, node: BrokerNode) -> Iterator[str]:
    yield f"# Node {node.name}, written by `warren ha render`. Belongs at /etc/warren/warren.conf."
    yield "# All nodes of the cluster also need the same cookie: /var/lib/warren/cookie, mode 400."
    yield ""
    yield from _listeners(node)
    if deployment.proxy_protocol:
        yield ""
        yield "# Connections from the balancers begin with a PROXY header with the client's address. Other connections"
        yield "# must not, or any client could claim any address. HAProxy has send-proxy-v2 and check-send-proxy."
        yield "proxy_protocol = true"
        yield "management.proxy_protocol = true"
        for number, balancer in enumerate(deployment.balancers, 1):
            yield f"proxy_protocol.from.{number} = {balancer.address}"
    if len(deployment.nodes) > 1:
        yield from _cluster(deployment, node)


def _listeners(node: BrokerNode) -> Iterator[str]:
    yield f"listeners.tcp.default = {node.ports[AMQP]}" if AMQP in node.ports else "listeners.tcp = none"
    if AMQPS in node.ports:
        yield f"listeners.ssl.default = {node.ports[AMQPS]}"
    if HTTP in node.ports:
        yield f"management.tcp.port = {node.ports[HTTP]}"
    if HTTPS in node.ports:
        yield f"management.ssl.port = {node.ports[HTTPS]}"
    if METRICS in node.ports:
        yield f"prometheus.tcp.port = {node.ports[METRICS]}"
    # AMQP and HTTP have separate certificate settings
    for family in [family for kind, family in _TLS_FAMILIES.items() if kind in node.ports]:
        yield "# The node terminates TLS, so the certificates are here."
        yield f"#{family}.cacertfile = /etc/warren/authority.pem"
        yield f"#{family}.certfile = /etc/warren/node.pem"
        yield f"#{family}.keyfile = /etc/warren/node.key"


def _cluster(deployment: Deployment, node: BrokerNode) -> Iterator[str]:
    yield ""
    yield "# The other nodes by the hosts in their names, which must resolve here (DNS or /etc/hosts). Used when"
    yield "# the node starts for the first time."
    yield "cluster_formation.peer_discovery_backend = classic_config"
    for number, each in enumerate(_first_a_disc_node(deployment), 1):
        yield f"cluster_formation.classic_config.nodes.{number} = {_peer(each)}"
    if node.kind in (RAM, WITNESS):
        yield f"cluster_formation.node_type = {node.kind}"
    yield ""
    yield "# A node that is cut off from the majority serves no clients; the balancers send them to the others."
    yield "cluster_partition_handling = pause_minority"


def _first_a_disc_node(deployment: Deployment) -> list[BrokerNode]:
    """The first node of the list founds the cluster and must be a disc node that holds queues."""
    return sorted(deployment.nodes, key=lambda node: node.kind in (RAM, WITNESS))


def _peer(node: BrokerNode) -> str:
    """The node's name as the other nodes resolve it, with its port unless it is the default."""
    port = node.ports.get(PEER, USUAL_PORTS[PEER])
    name, _, host = node.name.partition("@")
    return node.name if port == USUAL_PORTS[PEER] else f"{name}@{endpoint(host, port)}"


USER = "warren"
CONFIGURATION = "/etc/warren/warren.conf"
ENVIRONMENT = "/etc/default/warren"
DATA = "/var/lib/warren"
UNIT_PATH = "etc/systemd/system/warren.service"
USERS_PATH = "etc/sysusers.d/warren.conf"
DIRECTORIES_PATH = "etc/tmpfiles.d/warren.conf"
_FIRST_FREE_PORT = 1024


@dataclass(frozen=True)
class SystemdService:
    """One node as a service; `peer` is its address for other nodes."""

    name: str
    peer: str
    witness: bool = False
    # it listens on a privileged port
    reserved_port: bool = False
    program: str = PROGRAM

    def __post_init__(self) -> None:
        for word in (self.name, self.peer, self.program):
            if not word.isprintable():
                raise ConfigError(f"a unit of systemd has room for one line, so this cannot stand there: {word!r}")


def service_of(node: BrokerNode, program: str = PROGRAM) -> SystemdService:
    peer = endpoint(node.address, node.ports.get(PEER, USUAL_PORTS[PEER]))
    reserved = any(port < _FIRST_FREE_PORT for port in node.ports.values())
    return SystemdService(node.name, peer, node.kind == WITNESS, reserved, program)


def service_files(service: SystemdService) -> dict[str, str]:
    """The files by their paths below the root of the node's machine."""
    return {UNIT_PATH: _unit(service), USERS_PATH: _USERS, DIRECTORIES_PATH: _DIRECTORIES}


_SANDBOX = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
# netlink is how programs read the machine's own addresses
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""


def _unit(service: SystemdService) -> str:
    """Hardening lacks MemoryDenyWriteExecute, because Python's ctypes may need such memory."""
    what = "witness" if service.witness else "message broker"
    words = ["serve", "--name", service.name, "--data", DATA, "--config", CONFIGURATION, "--peer", service.peer]
    capability = "CAP_NET_BIND_SERVICE" if service.reserved_port else ""
    ambient = f"AmbientCapabilities={capability}\n" if capability else ""
    return f"""\
# Node {service.name}, written by `warren ha render`. Belongs at /{UNIT_PATH}. Once, as root:
#     systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload
#     systemctl enable --now warren
[Unit]
Description=Warren {what} {_plain(service.name)}
Wants=network-online.target
After=network-online.target time-sync.target
# No limit for restarts: a node can come back when the disk has room or the other nodes are up.
StartLimitIntervalSec=0

[Service]
# The node reports when clients can connect, and systemctl status shows what it is doing.
Type=notify
NotifyAccess=main
User={USER}
Group={USER}
# Secret settings, like WARREN_DEFAULT_PASS=…, mode 600; the file is optional.
EnvironmentFile=-{ENVIRONMENT}
ExecStart={" ".join(map(_plain, [service.program, *words]))}
WorkingDirectory={DATA}
StateDirectory={DATA.rpartition("/")[2]}
StateDirectoryMode=0700
UMask=0077
# A member of a cluster waits for a majority of the disc nodes, however long that takes.
TimeoutStartSec=infinity
# The node hands its masters to other nodes, closes client connections and finishes its writes.
TimeoutStopSec=120
# The etcd member of a disc node outlives a restart of the node.
KillMode=process
OOMPolicy=continue
Restart=on-failure
RestartSec=2
# 2: a bad option or file, which a restart would not change. If an address is not available yet, the node is
# restarted until it is.
RestartPreventExitStatus=2
# One for each connection, and for each file of the journal.
LimitNOFILE=262144

# The node needs its data and its ports, and nothing else of the machine.
CapabilityBoundingSet={capability}
{ambient}{_SANDBOX}
[Install]
WantedBy=multi-user.target
"""


_USERS = f"""\
# Belongs at /{USERS_PATH}: systemd-sysusers creates the user of the node.
u {USER} - "Warren message broker" {DATA}
"""

_DIRECTORIES = f"""\
# Belongs at /{DIRECTORIES_PATH}: systemd-tmpfiles --create makes the directories and sets their owners.
d {CONFIGURATION.rpartition("/")[0]} 0750 root {USER} -
z {CONFIGURATION} 0640 root {USER} -
d {DATA} 0700 {USER} {USER} -
# The secret that the nodes of a cluster share: a file of 16 characters or more, the same on each machine.
z {DATA}/cookie 0400 {USER} {USER} -
"""


def _plain(word: str) -> str:
    """Escape a word for systemd, where a percent sign begins a specifier."""
    escaped = word.replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    return f'"{escaped}"' if any(character.isspace() or character in "'\"" for character in word) else escaped
