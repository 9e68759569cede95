"""The settings of the backends that ask a web server, and the ones that stop the node."""

from collections.abc import Callable
from pathlib import Path

import pytest

from warren.broker.model.identity import CACHE, HTTP, INTERNAL
from warren.errors import ConfigError
from warren.node.config.settings import NodeFlags, NodeSettings, read_settings

Read = Callable[..., NodeSettings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def settings(*lines: str) -> NodeSettings:
        file = tmp_path / "my.conf"
        file.write_text("".join(f"{line}\n" for line in lines))
        return read_settings(NodeFlags(config=str(file)), {})

    return settings


def test_the_defaults_are_those_of_rabbitmq(read: Read) -> None:
    settings = read("auth_backends.1 = http", "auth_backends.2 = internal")
    assert settings.broker.authentication.backends == [(HTTP, HTTP), (INTERNAL, INTERNAL)]
    http, backend = settings.http_auth, settings.broker.authentication.http
    assert (http.method, http.request_timeout_ms, http.connection_timeout_ms) == ("get", 15_000, 15_000)
    assert http.urls["user"] == "http://localhost:8000/auth/user"
    assert list(http.urls) == ["user", "vhost", "resource", "topic"]
    assert backend is not None
    assert (backend.timeout_ms, backend.cache_ttl_ms) == (15_000, 0)


def test_every_key_has_its_effect(read: Read) -> None:
    settings = read(
        "auth_backends.1.authn = internal",
        "auth_backends.1.authz = rabbit_auth_backend_http",
        "auth_http.http_method = post",
        "auth_http.user_path = https://auth.example.com/u",
        "auth_http.vhost_path = https://auth.example.com/v",
        "auth_http.resource_path = https://auth.example.com/r",
        "auth_http.topic_path = https://[::1]:8443/t",
        "auth_http.request_timeout = 2000",
        "auth_http.ssl_options.verify = verify_peer",
        "auth_http.ssl_options.hostname_verification = wildcard",
        "auth_http.ssl_options.versions.1 = tlsv1.3",
        "auth_http.ssl_options.fail_if_no_peer_cert = true",
    )
    http, backend = settings.http_auth, settings.broker.authentication.http
    assert settings.broker.authentication.backends == [(INTERNAL, HTTP)]
    assert [url.rpartition("/")[2] for url in http.urls.values()] == ["u", "v", "r", "t"]
    assert (http.method, http.request_timeout_ms, http.connection_timeout_ms) == ("post", 2_000, 2_000)
    assert http.tls.versions == ["tlsv1.3"]
    assert backend is not None
    assert backend.timeout_ms == 2_000


def test_a_cache_keeps_answers_for_the_time_of_rabbitmq(read: Read) -> None:
    lines = ["auth_backends.1 = cache", "auth_cache.cached_backend = http"]
    kept = read(*lines).broker.authentication
    assert kept.backends == [(CACHE, CACHE)]
    assert kept.http is not None
    assert (kept.http.cache_ttl_ms, kept.http.caches_refusals) == (15_000, False)
    lines += ["auth_cache.cache_ttl = 500", "auth_cache.cache_refusals = true"]
    kept = read(*lines, "auth_cache.cache_module = rabbit_auth_cache_ets_segmented").broker.authentication
    assert kept.http is not None
    assert (kept.http.cache_ttl_ms, kept.http.caches_refusals) == (500, True)


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        (["auth_http.request_timeout = 5"], "auth_http.* has no effect without auth_backends.N = http or cache"),
        (
            ["auth_backends.1 = http", "auth_cache.cache_ttl = 5"],
            "auth_cache.* has no effect without auth_backends.N = cache",
        ),
        (["auth_backends.1 = cache"], "auth_backends.N = cache needs auth_cache.cached_backend = http"),
        (["auth_backends.1 = http", "auth_backends.2 = cache"], "name one of them"),
        (
            ["auth_cache.cached_backend = internal"],
            "auth_cache.cached_backend must be one of http, rabbit_auth_backend_http, not 'internal'",
        ),
        (["auth_cache.cache_module = my_cache"], "must be one of rabbit_auth_cache_ets, "),
        (["auth_http.user_path = auth.example.com/user"], "must be a URL like https://auth.example.com/user"),
        (["auth_http.user_path = ftp://auth.example.com/user"], "must be a URL"),
        (["auth_http.user_path = http://me:secret@auth/user"], "must be a URL"),
        (["auth_http.user_path = http://auth/user?key=1"], "must be a URL"),
        (["auth_http.user_path = http://auth:port/user"], "must be a URL"),
        (["auth_http.ssl_options.verify = verify_none"], "must be one of verify_peer"),
        (["auth_http.ssl_options.depth = 2"], "has no effect in Warren: the web server would not be asked as it says"),
        (
            ["auth_backends.1 = http", "auth_http.ssl_options.cacertfile = /no/such/file"],
            "auth_http.ssl_options.cacertfile /no/such/file cannot be read",
        ),
        (["auth_backends.1.authn = http", "auth_backends.1.authz = oauth2"], "only the login's token has scopes"),
    ],
)
def test_a_setting_that_makes_no_sense_stops_the_node(read: Read, lines: list[str], refusal: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(*lines)
    assert refusal in str(refused.value)
