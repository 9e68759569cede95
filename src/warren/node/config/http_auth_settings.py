"""The settings of the authentication backends `http` and `cache`: `auth_http.*`, `auth_cache.*`.

`auth_cache.*` keeps the answers of a web server. The users of this broker are in memory, and tokens are kept until they
expire, so `auth_cache.cached_backend` is `http` or nothing. The modules of RabbitMQ's cache differ in how they forget;
Warren has one way, and takes their names.

The certificate of the web server is always verified: an option that asks for less stops the node.

Not here: the keys and their parsers (`node.config.keys`), the order of the backends
(`node.config.authentication_settings`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from warren.broker.model.identity import CACHE, HTTP
from warren.broker.model.settings import HttpBackendSettings
from warren.errors import ConfigError
from warren.node.http_auth import AUTH_HTTP_TLS_FAMILY, HttpAuthSettings
from warren.node.tls import TlsSettings, web_client_context

CACHE_TTL_MS = 15_000
CACHE_MODULES = (
    "rabbit_auth_cache_ets",
    "rabbit_auth_cache_dict",
    "rabbit_auth_cache_ets_segmented",
    "rabbit_auth_cache_ets_segmented_stateless",
)
HTTP_BACKENDS = ("http", "rabbit_auth_backend_http")


def http_backend_settings(chain: Sequence[tuple[str, str]], values: Mapping[str, Any]) -> HttpBackendSettings | None:
    """None if no backend asks a web server."""
    asks, caches = (any(name in place for place in chain) for name in (HTTP, CACHE))
    if asks and caches:
        raise ConfigError("auth_backends names both http and cache, which ask the same web server; name one of them")
    if not asks and not caches:
        _refuse_unused("auth_http", "auth_backends.N = http or cache", values)
    if not caches:
        _refuse_unused("auth_cache", "auth_backends.N = cache", values)
        return HttpBackendSettings(_timeout_ms(values)) if asks else None
    if not any(f"auth_cache.cached_backend{part}" in values for part in ("", ".authn", ".authz")):
        raise ConfigError("auth_backends.N = cache needs auth_cache.cached_backend = http")
    return HttpBackendSettings(
        _timeout_ms(values),
        values.get("auth_cache.cache_ttl", CACHE_TTL_MS),
        values.get("auth_cache.cache_refusals", False),
    )


def _refuse_unused(family: str, backend: str, values: Mapping[str, Any]) -> None:
    if any(name.startswith(family) for name in values):
        raise ConfigError(f"{family}.* has no effect without {backend}")


def _timeout_ms(values: Mapping[str, Any]) -> int:
    timeout_ms: int = values.get("auth_http.request_timeout", HttpAuthSettings().request_timeout_ms)
    return timeout_ms


def http_auth_settings(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> HttpAuthSettings:
    """From the file and the environment. The files are read once, so that a faulty one stops the node."""
    default = HttpAuthSettings()
    tls = {
        name.removeprefix("auth_http_tls."): value
        for name, value in values.items()
        if name.startswith("auth_http_tls.")
    }
    request_timeout_ms = _timeout_ms(values)
    settings = HttpAuthSettings(
        method=values.get("auth_http.http_method", default.method),
        urls={about: values.get(f"auth_http.{about}_path", url) for about, url in default.urls.items()},
        request_timeout_ms=request_timeout_ms,
        connection_timeout_ms=values.get("auth_http.connection_timeout", request_timeout_ms),
        tls=TlsSettings(
            **tls, family=AUTH_HTTP_TLS_FAMILY, versions=list(families.get("auth_http_tls_versions", {}).values())
        ),
    )
    if tls:
        web_client_context(settings.tls)
    return settings
