"""Probes a deployment from outside: all entry points and nodes in parallel, then the cluster behind them.

A probe asks one port as a client or a load balancer would. It ends within its timeout and never raises.

Not here: what the results mean (`cli.ha.verdict`).
"""

import contextlib
import email.utils
import http.client
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from warren.cli.ctl.api import Api, Failure
from warren.cli.ha.deployment import (
    AMQP,
    AMQPS,
    BALANCER_HEADER,
    FITNESS_PATH,
    HTTP,
    HTTPS,
    Balancer,
    BrokerNode,
    Deployment,
    endpoint,
)
from warren.cli.ha.observations import (
    AmqpProbeResult,
    ClusterObservation,
    EntryPoint,
    FitnessProbeResult,
    NodeObservation,
    Observations,
)
from warren.client import ClientError, blocking
from warren.errors import WarrenError
from warren.wire.methods import ConnectionStart, decode_method

PROBE_TIMEOUT_S = 4.0
LOCAL_HEADER = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
"""PROXY protocol, version 2, command LOCAL: the sender speaks for itself."""
_AMQP_HEADER = b"AMQP\0\0\x09\x01"
_FRAME_HEAD = struct.Struct(">BHI")
_FRAME_MAX = 131_072


class _Silent(Exception):
    """The other end accepted the connection and closed it without data."""


class _Unreached(Exception):
    """There is no connection."""


def probe_amqp(host: str, port: int, *, tls: bool = False, header: bool = False) -> AmqpProbeResult:
    """Open an AMQP connection up to the server's first method."""
    try:
        with _connected(host, port, tls, header) as connection:
            connection.sendall(_AMQP_HEADER)
            start = _start_of(connection)
    except _Silent:
        return AmqpProbeResult(port, refusal="it closes the connection", silent=True)
    except _Unreached as error:
        return AmqpProbeResult(port, refusal=str(error), unreached=True)
    except (OSError, ValueError, WarrenError) as error:
        return AmqpProbeResult(port, refusal=_words(error))
    properties = dict(start.server_properties)
    return AmqpProbeResult(port, _text(properties.get("product")), _text(properties.get("version")))


def probe_fitness(host: str, port: int, *, tls: bool = False, header: bool = False) -> FitnessProbeResult:
    """The fitness of the node, or of the one that a balancer chooses."""
    connection = http.client.HTTPConnection(host, port, timeout=PROBE_TIMEOUT_S)
    try:
        # the header comes before HTTP and before TLS
        connection.sock = _connected(host, port, tls, header)
        begun = time.time()
        connection.request("GET", FITNESS_PATH)
        answer = connection.getresponse()
        body = answer.read(65536)
    except (http.client.RemoteDisconnected, ConnectionResetError, _Silent):
        return FitnessProbeResult(port, refusal="it closes the connection", silent=True)
    except _Unreached as error:
        return FitnessProbeResult(port, refusal=str(error), unreached=True)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return FitnessProbeResult(port, refusal=_words(error))
    finally:
        connection.close()
    standing, node, reasons = _fitness(body)
    return FitnessProbeResult(
        port,
        answer.status,
        answer.headers.get(BALANCER_HEADER, ""),
        standing,
        node,
        reasons,
        _ahead_s(answer.headers.get("date"), (begun + time.time()) / 2),
    )


def _connected(host: str, port: int, tls: bool, header: bool) -> socket.socket:
    try:
        connection = socket.create_connection((host, port), PROBE_TIMEOUT_S)
    except OSError as error:
        raise _Unreached(_words(error)) from error
    try:
        if header:
            connection.sendall(LOCAL_HEADER)
        return _without_trust().wrap_socket(connection, server_hostname=host) if tls else connection
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError) as error:
        connection.close()
        raise _Silent from error
    except BaseException:
        connection.close()
        raise


def _without_trust() -> ssl.SSLContext:
    """The probe does not verify certificates: that is for clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _start_of(connection: socket.socket) -> ConnectionStart:
    kind, _, size = _FRAME_HEAD.unpack(_exactly(connection, _FRAME_HEAD.size))
    if kind != 1 or size > _FRAME_MAX:
        raise ValueError("the server does not speak AMQP 0-9-1")
    payload = _exactly(connection, size)
    method = decode_method(payload, 0, size)
    if not isinstance(method, ConnectionStart):
        raise ValueError("the server does not begin as an AMQP broker does")
    return method


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        try:
            more = connection.recv(size - len(received))
        except ConnectionResetError:
            more = b""
        if not more:
            raise _Silent
        received += more
    return received


def _fitness(body: bytes) -> tuple[str, str, tuple[str, ...]]:
    found: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(body)
    if not isinstance(found, dict) or not {"status", "node", "reasons"} <= found.keys():
        return "", "", ()
    if not isinstance(found["reasons"], list):
        return "", "", ()
    sentences = tuple(str(reason.get("sentence", "")) for reason in found["reasons"] if isinstance(reason, dict))
    return str(found["status"]), str(found["node"]), sentences


def _ahead_s(date: str | None, here: float) -> float:
    """A date has whole seconds, so the middle of the second is assumed."""
    try:
        there = email.utils.parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return 0.0
    return there + 0.5 - here


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PROBE_TIMEOUT_S:g} s"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


_LOOK_TIMEOUT_S = 20.0
_SEEN_WITHIN_S = 10.0
_QUEUE_COLUMNS = ["name", "vhost", "exclusive", "slave_nodes", "synchronised_slave_nodes"]


@dataclass(frozen=True)
class ClusterLogin:
    """The user to ask the cluster as; without a name it is not asked."""

    user: str = ""
    password: str = ""
    ca_file: str = ""


def observe(deployment: Deployment, login: ClusterLogin) -> Observations:
    entry_points: list[Callable[[], EntryPoint]] = [lambda: _entry_point(deployment, deployment.virtual_address, None)]
    entry_points += [_bound(deployment, balancer) for balancer in deployment.balancers]
    with ThreadPoolExecutor(max_workers=32) as pool:
        found_entry_points = [pool.submit(entry_point) for entry_point in entry_points]
        found_nodes = [pool.submit(_node, deployment, node) for node in deployment.nodes]
        seen = Observations(
            tuple(entry_point.result() for entry_point in found_entry_points),
            tuple(node.result() for node in found_nodes),
        )
    return replace(seen, cluster=_cluster(deployment, seen, login)) if login.user else seen


def _bound(deployment: Deployment, balancer: Balancer) -> Callable[[], EntryPoint]:
    return lambda: _entry_point(deployment, balancer.address, balancer)


def _entry_point(deployment: Deployment, address: str, balancer: Balancer | None) -> EntryPoint:
    ports = deployment.ports
    return EntryPoint(
        address,
        balancer,
        tuple(probe_amqp(address, ports[kind], tls=kind == AMQPS) for kind in (AMQP, AMQPS) if kind in ports),
        tuple(probe_fitness(address, ports[kind], tls=kind == HTTPS) for kind in (HTTP, HTTPS) if kind in ports),
    )


def _node(deployment: Deployment, node: BrokerNode) -> NodeObservation:
    """Probe without a PROXY header first; if the node closes the connection, with one."""
    kind = HTTP if HTTP in node.ports else HTTPS
    answer = probe_fitness(node.address, node.ports[kind], tls=kind == HTTPS)
    wants_header = False
    if answer.silent:
        asked_again = probe_fitness(node.address, node.ports[kind], tls=kind == HTTPS, header=True)
        wants_header = not asked_again.refusal
        answer = asked_again if wants_header else answer
    greeting = None
    amqp = next((each for each in (AMQP, AMQPS) if each in node.ports), None)
    if amqp is not None and not answer.refusal:
        greeting = probe_amqp(node.address, node.ports[amqp], tls=amqp == AMQPS)
        if greeting.silent:
            with_header = probe_amqp(node.address, node.ports[amqp], tls=amqp == AMQPS, header=True)
            if not with_header.refusal:
                greeting, wants_header = with_header, True
    puzzled = wants_header or answer.refusal or (greeting is not None and greeting.unreached)
    return NodeObservation(node, answer, greeting, wants_header, own_address(node.address) if puzzled else "")


def _cluster(deployment: Deployment, seen: Observations, login: ClusterLogin) -> ClusterObservation:
    """Ask through the first entry point that leads to a node, or else a node itself."""
    url = _way_in(deployment, seen)
    if url is None:
        return ClusterObservation(refusal="no balancer and no node answers over HTTP")
    try:
        with closing(Api(url, login.user, login.password, login.ca_file, _LOOK_TIMEOUT_S)) as api:
            cluster = ClusterObservation(tuple(api.get("nodes")), tuple(api.pages("queues", columns=_QUEUE_COLUMNS)))
            return _with_own_connection(deployment, cluster, login, api)
    except Failure as failure:
        return ClusterObservation(refusal=failure.text.strip().splitlines()[-1].strip(" *"))


def _way_in(deployment: Deployment, seen: Observations) -> str | None:
    kinds = {deployment.ports[kind]: kind for kind in (HTTP, HTTPS) if kind in deployment.ports}
    for entry_point in seen.entry_points:
        for answer in entry_point.answers:
            if answer.standing:
                return f"{kinds[answer.port]}://{endpoint(entry_point.address, answer.port)}"
    for observed in seen.nodes:
        if observed.answer.standing and not observed.wants_header:
            own = HTTP if HTTP in observed.node.ports else HTTPS
            return f"{own}://{observed.node.endpoint(own)}"
    return None


def _with_own_connection(
    deployment: Deployment, cluster: ClusterObservation, login: ClusterLogin, api: Api
) -> ClusterObservation:
    """Log in through the virtual address, and find out which address the nodes see."""
    name = f"warren ha check {uuid4()}"
    try:
        connection = blocking.connect(_amqp_url(deployment, login), name=name, call_timeout_s=_LOOK_TIMEOUT_S)
    except ClientError as error:
        return replace(cluster, login_refusal=str(error))
    with closing(connection):
        row = _found(api, name)
    return replace(
        cluster, called_from=own_address(deployment.virtual_address), seen_from=str(row.get("peer_host", ""))
    )


def _amqp_url(deployment: Deployment, login: ClusterLogin) -> str:
    kind = AMQP if AMQP in deployment.ports else AMQPS
    user_info = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    trust = ""
    if kind == AMQPS:
        trust = f"?cacertfile={quote(login.ca_file, safe='')}" if login.ca_file else "?verify=verify_none"
    return f"{kind}://{user_info}@{endpoint(deployment.virtual_address, deployment.ports[kind])}/{trust}"


def _found(api: Api, name: str) -> dict[str, Any]:
    """The row of our connection; nodes report connections with a delay."""
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while True:
        for row in api.pages("connections", columns=["peer_host", "user_provided_name"]):
            if row.get("user_provided_name") == name:
                return row
        if time.monotonic() > deadline:
            return {}
        time.sleep(0.2)


def own_address(host: str) -> str:
    """The address from which this machine reaches another; empty if it cannot. Nothing is sent."""
    try:
        [(family, _, _, _, there), *_] = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(there)
            return str(probe.getsockname()[0])
    except OSError:
        # an unknown name, or no route
        return ""
