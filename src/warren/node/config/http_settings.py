"""The settings of the HTTP listeners: `management.*`, `prometheus.*`, `trace_files.*`, the flag `--http`; and of load
balancers: `proxy_protocol`, `proxy_protocol.from.*`, `management.proxy_protocol`.

A listener whose address is not configured uses the host of a related one that is: the metrics listener that of the HTTP
listener, and the HTTP listener that of `--amqp`. So a node that is told to listen on the loopback address does so with
all its ports.

As in RabbitMQ, an operator who configures `management.ssl.port` and no plain port gets a TLS listener alone.
`management.listener.*` is RabbitMQ's older form of the same.

Not here: the keys and their parsers (`node.config.keys`), the PROXY header (`node.proxy_protocol`).
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from warren.admin.history.sampler import SAMPLE_EVERY_MS
from warren.admin.http.settings import ApplicationSettings, CrossOrigin, HostNames, HttpLimits, PagesLogin
from warren.admin.metrics.scrape import PATH
from warren.admin.tracing.files import TraceRotation
from warren.errors import ConfigError
from warren.node.listeners import ListenAddress
from warren.node.proxy_protocol import LoadBalancers
from warren.node.tls import TlsSettings


def load_balancers_of(
    name: str, values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]
) -> LoadBalancers | None:
    """The balancers that send a header to these listeners; None: there are none."""
    if not values.get(name, False):
        return None
    return LoadBalancers(tuple(families.get("proxy_protocol.from", {}).values()))


DEFAULT_HTTP_PORT = 15672
DEFAULT_METRICS_PORT = 15692
HTTP_TLS_FAMILY = "management.ssl"


@dataclass
class PrometheusSettings:
    """The settings of the metrics listener."""

    address: ListenAddress = field(default_factory=lambda: ListenAddress("", DEFAULT_METRICS_PORT))
    # otherwise the node goes on if the port cannot be bound
    asked_for: bool = field(default=False, compare=False)
    path: str = PATH
    # whether a scrape without a document name has a sample for each object
    per_object: bool = False
    # whether every scrape needs a login
    authentication: bool = False


@dataclass
class HttpSettings:
    """The settings of the HTTP listeners."""

    tcp_listeners: list[ListenAddress] = field(default_factory=lambda: [ListenAddress("", DEFAULT_HTTP_PORT)])
    ssl_listeners: list[ListenAddress] = field(default_factory=list)
    tls: TlsSettings = field(default_factory=lambda: TlsSettings(family=HTTP_TLS_FAMILY))
    limits: HttpLimits = field(default_factory=HttpLimits)
    application: ApplicationSettings = field(default_factory=ApplicationSettings)
    # how often stats are sampled, for rates and history
    sample_interval_ms: int = SAMPLE_EVERY_MS
    prometheus: PrometheusSettings = field(default_factory=PrometheusSettings)
    # of trace files; empty: within the data directory
    trace_directory: str = ""
    trace_rotation: TraceRotation = field(default_factory=TraceRotation)
    # the balancers that send a PROXY header; None: there are none
    balancers: LoadBalancers | None = None


def http_settings(
    values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]], flag: ListenAddress | None, amqp_host: str
) -> HttpSettings:
    """From the file, the environment, and the flag's address if it was given; `amqp_host` is that of `--amqp`."""
    plain = flag or ListenAddress(values.get("http.ip", amqp_host), values.get("http.port", DEFAULT_HTTP_PORT))
    secured = [ListenAddress(values.get("https.ip", amqp_host), values["https.port"])] if "https.port" in values else []
    wants_plain = flag is not None or "http.port" in values or not secured
    if values.get("http.listener_ssl") and flag is None:
        secured, wants_plain = [*secured, plain], False
    return HttpSettings(
        tcp_listeners=[plain] if wants_plain else [],
        ssl_listeners=secured,
        tls=_tls(values, families),
        limits=_limits(values),
        application=_application(values, families),
        sample_interval_ms=values.get("sample_interval_ms", SAMPLE_EVERY_MS),
        prometheus=_prometheus(values, plain),
        trace_directory=values.get("traces.directory", ""),
        trace_rotation=_trace_rotation(values),
        balancers=load_balancers_of("management.proxy_protocol", values, families),
    )


def _tls(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> TlsSettings:
    chosen = {name.removeprefix("https_tls."): value for name, value in values.items() if name.startswith("https_tls.")}
    verify_peer = chosen.pop("verify", "verify_none") == "verify_peer"
    versions = list(families.get("https_tls_versions", {}).values())
    return TlsSettings(**chosen, verify_peer=verify_peer, versions=versions, family=HTTP_TLS_FAMILY)


def _limits(values: Mapping[str, Any]) -> HttpLimits:
    default = HttpLimits()
    return HttpLimits(
        request_timeout_s=values.get("http.request_timeout_ms", default.request_timeout_s * 1000) / 1000,
        idle_timeout_s=values.get("http.idle_timeout_ms", default.idle_timeout_s * 1000) / 1000,
    )


def _application(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> ApplicationSettings:
    default = ApplicationSettings()
    return ApplicationSettings(
        body_bytes_max=values.get("http.body_bytes_max", default.body_bytes_max),
        cross_origin=CrossOrigin(
            allowed=list(families.get("cors_origins", {}).values()),
            max_age_s=values.get("cors_max_age_s", default.cross_origin.max_age_s),
        ),
        hosts=HostNames(frozenset(name.lower() for name in _host_names(families))),
        pages_login=_pages_login(values),
    )


def _pages_login(values: Mapping[str, Any]) -> PagesLogin:
    """`auth_oauth2.issuer` is the provider if none is named."""
    chosen = {name.removeprefix("pages."): value for name, value in values.items() if name.startswith("pages.")}
    if chosen.get("enabled"):
        if "client_id" not in chosen:
            raise ConfigError("management.oauth_enabled = true needs management.oauth_client_id")
        if "metadata_url" not in chosen:
            chosen.setdefault("provider_url", values.get("oauth2.issuer", ""))
        if not chosen.get("metadata_url") and not chosen.get("provider_url"):
            raise ConfigError("management.oauth_enabled = true needs management.oauth_provider_url")
    for name in ("enabled", "disable_basic_auth"):
        if chosen.get(name) and "oauth2.resource_server_id" not in values:
            key = "oauth_enabled" if name == "enabled" else name
            raise ConfigError(f"management.{key} = true needs auth_backends.N = oauth2")
    return PagesLogin(**chosen)


def _host_names(families: Mapping[str, Mapping[str, Any]]) -> list[str]:
    own = socket.gethostname()
    return [own, own.partition(".")[0], *families.get("allowed_hosts", {}).values()]


def _trace_rotation(values: Mapping[str, Any]) -> TraceRotation:
    default = TraceRotation()
    return TraceRotation(
        piece_bytes=values.get("traces.piece_bytes", default.piece_bytes),
        pieces_max=values.get("traces.pieces_max", default.pieces_max),
    )


def _prometheus(values: Mapping[str, Any], http: ListenAddress) -> PrometheusSettings:
    """An HTTP listener on a free port gets a free metrics port, too."""
    port = 0 if http.port == 0 else DEFAULT_METRICS_PORT
    return PrometheusSettings(
        address=ListenAddress(values.get("prometheus.ip", http.host), values.get("prometheus.port", port)),
        asked_for="prometheus.port" in values or "prometheus.ip" in values,
        path=values.get("prometheus.path", PATH),
        per_object=values.get("prometheus.per_object", False),
        authentication=values.get("prometheus.authentication", False),
    )
