"""HAProxy's configuration for one balancer of a deployment.

AMQP has two backends. `…_fit` has nodes that accept new clients: a reluctant node (an alarm, draining) answers the
check with 404 and keeps its clients. `…_serving` has all nodes that serve clients. It is used when no node is fit,
because consumers must be able to connect to drain an alarmed cluster. Only the AMQP servers run checks; the others
`track` them. A witness is never fit, because it holds no queues, and is a backup among the serving nodes.

Each balancer connects from its own address (`source`), by which nodes know it. The system might choose the virtual one.

Each frontend has its own `maxconn`, and the global limit is larger than their sum. If one frontend could use all
connections, the check script would get no answer and Keepalived would move the address back and forth.

Not here: the virtual address (`cli.ha.keepalived`), what makes a node unfit (`admin.fitness`).
"""

from collections.abc import Iterator

from warren.cli.ha.deployment import (
    AMQP,
    AMQPS,
    BALANCER_HEADER,
    FITNESS_PATH,
    HTTP,
    HTTPS,
    WITNESS,
    Balancer,
    BrokerNode,
    Deployment,
    is_ip,
)

FIT, SERVING = "fit", "serving"
ALIVE_PATH, WORKING_PATH = "/alive", "/working"
HTTP_CONNECTIONS = 1000
"""HTTP connections are short, and a node accepts no more of them."""
_KEPT_FOR_HEALTH = 100
_QUESTIONS = {FIT: "reluctant=404", SERVING: "reluctant=200"}
_TITLES = {AMQP: "AMQP", AMQPS: "AMQP over TLS", HTTP: "HTTP API and pages", HTTPS: "HTTP API and pages over TLS"}


def haproxy_config(deployment: Deployment, balancer: Balancer) -> str:
    """The text of /etc/haproxy/haproxy.cfg."""
    sections = [
        _heading(deployment, balancer),
        _global(deployment),
        _DEFAULTS,
        *(_frontend(deployment, balancer, kind) for kind in deployment.served()),
        *_backends(deployment, balancer),
        _health(deployment),
    ]
    return "\n".join(sections)


def _heading(deployment: Deployment, balancer: Balancer) -> str:
    nodes = ", ".join(node.name for node in deployment.nodes)
    socket = f"{deployment.haproxy.run_directory}/admin.sock"
    return f"""\
# HAProxy on {balancer.name}, written by `warren ha render`. Belongs at /etc/haproxy/haproxy.cfg.
#
# Clients come to {deployment.virtual_address}, which Keepalived keeps on one of
# {", ".join(each.name for each in deployment.balancers)}; from here they go to one of the nodes
# {nodes}.
#
# Check it:     haproxy -c -f /etc/haproxy/haproxy.cfg
# Load it:      systemctl reload haproxy          (existing connections stay)
# Fit nodes:    echo "show servers state" | socat stdio {socket}
# Drain a node: warren ctl drain, on the node, so that both balancers know
"""


def _global(deployment: Deployment) -> str:
    settings = deployment.haproxy
    isolation = ""
    if settings.user:
        isolation = f"""\
    user {settings.user}
    group {settings.user}
    chroot /var/lib/haproxy
"""
    connections = sum(_connections(deployment, kind) for kind in deployment.served()) + _KEPT_FOR_HEALTH
    return f"""\
global
    log /dev/log local0
    log /dev/log local1 notice
{isolation}\
    # The sum of the frontends and some more, so that the check script below gets an answer however many clients
    # there are. HAProxy needs about 40 KB of memory for each.
    maxconn {connections}
    stats socket {settings.run_directory}/admin.sock mode 660 level admin expose-fd listeners
    stats timeout 30s
"""


def _connections(deployment: Deployment, kind: str) -> int:
    return deployment.haproxy.maxconn if kind in (AMQP, AMQPS) else HTTP_CONNECTIONS


_DEFAULTS = """\
defaults
    log global
    option dontlognull
    # If a node does not answer, another is tried at once, and the client does not notice.
    timeout connect 2s
    retries 3
    option redispatch 1
    timeout queue 5s
    # Nodes are checked every second and have two seconds to answer. After a failed check the next one comes in half a
    # second, and a second failure takes the node out; two successes bring it back.
    timeout check 2s
    default-server inter 1s fastinter 500ms downinter 1s fall 2 rise 2
"""

_LONG_LIVED = """\
    mode tcp
    option tcplog
    # AMQP connections live for months, and heartbeats keep them busy: with the usual 60 s one is sent every 30 s in
    # each direction. A consumer without heartbeats may wait for days for a message, so an idle connection lasts a
    # week. A client that is gone is noticed by TCP keepalive, after 30 s and three probes of 10 s, or before that by
    # the node's heartbeats.
    timeout client 7d
    timeout client-fin 10s
    option clitcpka
    clitcpka-idle 30s
    clitcpka-intvl 10s
    clitcpka-cnt 3
"""

_BRIEF = """\
    mode http
    option httplog
    timeout client 60s
    timeout http-request 10s
    timeout http-keep-alive 30s
"""

_PASSED_ON = """\
    # The node terminates TLS; HAProxy passes it through.
    mode tcp
    option tcplog
    timeout client 60s
"""


def _frontend(deployment: Deployment, balancer: Balancer, kind: str) -> str:
    mode = {AMQP: _LONG_LIVED, AMQPS: _LONG_LIVED, HTTP: _BRIEF, HTTPS: _PASSED_ON}[kind]
    bind = f":::{deployment.ports[kind]} v4v6" if deployment.is_ipv6 else f":{deployment.ports[kind]}"
    lines = [f"# {_TITLES[kind]}", f"frontend {kind}_in", f"    bind {bind}"]
    lines += [f"    maxconn {_connections(deployment, kind)}", mode.rstrip("\n")]
    if kind == AMQPS:
        lines.insert(4, "    # The node terminates TLS and sees the client's certificate; HAProxy passes it through.")
    if kind in (AMQP, AMQPS):
        lines += [
            "    # If no node is fit, use any that serves: consumers must be able to connect to drain them.",
            f"    use_backend {kind}_{SERVING} if {{ nbsrv({kind}_{FIT}) eq 0 }}",
            f"    default_backend {kind}_{FIT}",
        ]
    else:
        if kind == HTTP:
            lines.append(f"    http-after-response set-header {BALANCER_HEADER} {balancer.name}")
        lines.append(f"    default_backend {kind}_{SERVING}")
    return "\n".join(lines) + "\n"


def _backends(deployment: Deployment, balancer: Balancer) -> Iterator[str]:
    asking = AMQP if AMQP in deployment.ports else AMQPS
    for kind in deployment.served():
        for standing in (FIT, SERVING) if kind in (AMQP, AMQPS) else (SERVING,):
            yield _backend(deployment, balancer, kind, standing, asking)


def _backend(deployment: Deployment, balancer: Balancer, kind: str, standing: str, asking: str) -> str:
    nodes = [node for node in deployment.behind(kind) if standing == SERVING or node.kind != WITNESS]
    lines = [f"backend {kind}_{standing}", *_server_mode(kind)]
    if any(kind == asking or asking not in node.ports for node in nodes):
        lines += _question(standing)
    elif standing == FIT:
        lines += _tracked_answers()
    for node in nodes:
        follows = f"{asking}_{standing}/{node.label}" if asking in node.ports and kind != asking else ""
        lines.append("    server " + " ".join(_server(deployment, balancer, kind, node, follows)))
    return "\n".join(lines) + "\n"


def _server_mode(kind: str) -> list[str]:
    if kind == HTTP:
        return ["    mode http", "    balance leastconn", "    timeout server 60s"]
    lines = ["    mode tcp", "    balance leastconn"]
    if kind == HTTPS:
        return [*lines, "    timeout server 60s"]
    return [
        *lines,
        "    timeout server 7d",
        "    timeout server-fin 10s",
        "    option srvtcpka",
        "    srvtcpka-idle 30s",
        "    srvtcpka-intvl 10s",
        "    srvtcpka-cnt 3",
    ]


def _question(standing: str) -> list[str]:
    why = {
        FIT: [
            "    # 200: accepts new clients. 404: keeps its clients, accepts no new ones. Anything else: its clients",
            "    # are disconnected, so that they reconnect to another node at once.",
        ],
        SERVING: ["    # 200: it serves clients, though it may have an alarm."],
    }[standing]
    return [
        *why,
        "    option httpchk",
        f"    http-check send meth GET uri {FITNESS_PATH}?{_QUESTIONS[standing]}",
        *(["    http-check disable-on-404"] if standing == FIT else []),
        "    http-check expect status 200",
    ]


def _tracked_answers() -> list[str]:
    return [
        "    # These servers track others; a 404 must mean the same here.",
        "    option httpchk",
        "    http-check disable-on-404",
    ]


def _server(deployment: Deployment, balancer: Balancer, kind: str, node: BrokerNode, follows: str) -> Iterator[str]:
    yield node.label
    # resolve a name in the address family of the source address
    yield ("" if is_ip(node.address) else "ipv6@" if deployment.is_ipv6 else "ipv4@") + node.endpoint(kind)
    yield f"source [{balancer.address}]" if deployment.is_ipv6 else f"source {balancer.address}"
    if follows:
        yield f"track {follows}"
    else:
        yield f"check port {node.ports[node.health_kind]}"
        if node.health_kind == HTTPS:
            yield "check-ssl verify none"
        if deployment.proxy_protocol:
            yield "check-send-proxy"
    if deployment.proxy_protocol:
        yield "send-proxy-v2"
    yield "on-marked-down shutdown-sessions"
    if node.kind == WITNESS:
        # it holds no queues and serves only if no other node can
        yield "backup"


def _health(deployment: Deployment) -> str:
    servers = f"{AMQP if AMQP in deployment.ports else AMQPS}_{SERVING}"
    say = "http-request return content-type text/plain"
    return f"""\
# For Keepalived's check script, on this machine alone: {ALIVE_PATH} answers 200 while HAProxy runs,
# {WORKING_PATH} while some node serves clients. Statistics are at /statistics.
frontend health
    mode http
    bind 127.0.0.1:{deployment.haproxy.health_port}
    timeout client 5s
    no log
    {say} status 200 string alive if {{ path {ALIVE_PATH} }}
    {say} status 200 string working if {{ path {WORKING_PATH} }} {{ nbsrv({servers}) gt 0 }}
    {say} status 503 string "no node serves" if {{ path {WORKING_PATH} }}
    stats enable
    stats uri /statistics
    stats refresh 5s
"""
