"""The backends that a configuration names."""

import re
from pathlib import Path

import pytest

from warren.errors import ConfigError
from warren.node.config.settings import NodeFlags, NodeSettings, read_settings
from warren.node.key_settings import KeySettings

INTERNAL = ("internal", "internal")


def read(tmp_path: Path, *lines: str) -> NodeSettings:
    file = tmp_path / "my.conf"
    file.write_text("\n".join(lines))
    return read_settings(NodeFlags(config=str(file)), {})


@pytest.mark.parametrize(
    ("lines", "chain"),
    [
        ([], [INTERNAL]),
        (["auth_backends.1 = internal"], [INTERNAL]),
        (["auth_backends.10 = internal", "auth_backends.9 = rabbit_auth_backend_internal"], [INTERNAL, INTERNAL]),
        (["auth_backends.1.authn = internal", "auth_backends.1.authz = internal"], [INTERNAL]),
        (["auth_backends.1.authz = internal"], [INTERNAL]),
    ],
)
def test_backends_are_asked_in_the_order_of_their_numbers(
    tmp_path: Path, lines: list[str], chain: list[tuple[str, str]]
) -> None:
    assert read(tmp_path, *lines).broker.authentication.backends == chain


@pytest.mark.parametrize("member", ["first", "1.both", "-1", "1.authn.2"])
def test_a_backend_without_a_number_stops_the_node(tmp_path: Path, member: str) -> None:
    with pytest.raises(ConfigError, match=f"auth_backends.{member} must be auth_backends.N"):
        read(tmp_path, f"auth_backends.{member} = internal")


def test_two_backends_at_one_place_stop_the_node(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"auth_backends\.1 has two backends for authn"):
        read(tmp_path, "auth_backends.1 = internal", "auth_backends.1.authn = internal")


OAUTH2 = ("oauth2", "oauth2")
TOKENS = ("auth_backends.1 = oauth2", "auth_oauth2.resource_server_id = rabbitmq")
KEYS = "auth_oauth2.jwks_url = https://id.example/keys"


def test_the_backend_oauth2_has_two_names(tmp_path: Path) -> None:
    lines = ["auth_backends.2 = rabbit_auth_backend_oauth2", *TOKENS, KEYS]
    assert read(tmp_path, *lines).broker.authentication.backends == [OAUTH2, OAUTH2]


def test_a_token_may_authenticate_a_user_of_this_broker(tmp_path: Path) -> None:
    lines = ["auth_backends.1.authn = oauth2", "auth_backends.1.authz = internal", TOKENS[1], KEYS]
    assert read(tmp_path, *lines).broker.authentication.backends == [("oauth2", "internal")]


def test_the_claims_of_tokens_are_configured(tmp_path: Path) -> None:
    lines = [
        "auth_oauth2.scope_prefix = ''",
        "auth_oauth2.additional_scopes_key = roles",
        "auth_oauth2.verify_aud = false",
        "auth_oauth2.issuer = https://id.example",
        "auth_oauth2.preferred_username_claims.1 = email",
        "auth_oauth2.scope_aliases.1.alias = api://admin",
        "auth_oauth2.scope_aliases.1.scope = tag:administrator read:*/*",
        "auth_oauth2.scope_aliases.reader = read:*/*",
        "auth_oauth2.algorithms.1 = ES256",
        "auth_oauth2.default_key = one",
        "initial_frame_max = 16384",
    ]
    settings = read(tmp_path, *TOKENS, *lines)
    found = settings.broker.authentication.oauth2
    assert found is not None
    assert (found.scope_prefix, found.additional_scopes_key, found.verify_aud) == ("", "roles", False)
    assert (found.issuer, found.username_claims) == ("https://id.example", ["email", "client_id", "sub"])
    assert found.scope_aliases == {"api://admin": ["tag:administrator", "read:*/*"], "reader": ["read:*/*"]}
    assert settings.token_keys == KeySettings(issuer="https://id.example", default_key="one", algorithms=("ES256",))
    assert settings.broker.authentication.initial_frame_max == 16384


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["auth_backends.1 = oauth2", KEYS], "needs auth_oauth2.resource_server_id"),
        (TOKENS, "tokens cannot be verified without keys"),
        ([KEYS], "auth_oauth2.* has no effect without auth_backends.N = oauth2"),
        ([*TOKENS, "auth_oauth2.jwks_url = http://id.example/keys"], "must be a URL with https"),
        ([*TOKENS, "auth_oauth2.issuer = http://id.example"], "must be a URL with https"),
        ([*TOKENS, KEYS, "auth_oauth2.algorithms.1 = HS256"], "must be one of RS256"),
        ([*TOKENS, KEYS, "auth_oauth2.algorithms.1 = none"], "must be one of RS256"),
        ([*TOKENS, KEYS, "auth_oauth2.https.peer_verification = verify_none"], "must be one of verify_peer"),
        ([*TOKENS, KEYS, "auth_oauth2.https.hostname_verification = none"], "must be one of wildcard"),
        ([*TOKENS, KEYS, "auth_oauth2.https.depth = 1"], "auth_oauth2.https.depth has no effect in Warren"),
        ([*TOKENS, KEYS, "auth_oauth2.https.cacertfile = /nowhere.pem"], "auth_oauth2.https.cacertfile: /nowhere.pem"),
        ([*TOKENS, "auth_oauth2.signing_keys.one = /nowhere.pem"], "signing_keys.one: /nowhere.pem cannot be read"),
        ([*TOKENS, KEYS, "auth_oauth2.scope_aliases.1.alias = a"], "scope_aliases.1 needs both .alias and .scope"),
        (
            ["auth_backends.1.authn = internal", "auth_backends.1.authz = oauth2", TOKENS[1], KEYS],
            "needs .authn = oauth2",
        ),
    ],
)
def test_a_configuration_that_cannot_work_stops_the_node(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        read(tmp_path, *lines)


PAGES = ("management.oauth_enabled = true", "management.oauth_client_id = pages")


def test_the_pages_log_in_at_the_issuer_of_the_tokens(tmp_path: Path) -> None:
    issuer = "auth_oauth2.issuer = https://id.example/realm"
    login = read(tmp_path, *TOKENS, issuer, *PAGES).http.application.pages_login
    assert login.discovery_url == "https://id.example/realm/.well-known/openid-configuration"
    assert login.issuer_origins == ["https://id.example"]
    assert (login.client_id, login.scopes, login.disable_basic_auth) == ("pages", "openid profile", False)


def test_the_pages_may_log_in_elsewhere(tmp_path: Path) -> None:
    lines = [
        "management.oauth_provider_url = https://login.example:8443/realm",
        "management.oauth_metadata_url = https://meta.example/openid.json",
        "management.oauth_scopes = openid rabbitmq.tag:administrator",
        "management.disable_basic_auth = true",
    ]
    login = read(tmp_path, *TOKENS, KEYS, *PAGES, *lines).http.application.pages_login
    assert login.discovery_url == "https://meta.example/openid.json"
    assert login.issuer_origins == ["https://meta.example", "https://login.example:8443"]
    assert (login.scopes, login.disable_basic_auth) == ("openid rabbitmq.tag:administrator", True)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([*TOKENS, KEYS, PAGES[0]], "needs management.oauth_client_id"),
        ([*TOKENS, KEYS, *PAGES], "needs management.oauth_provider_url"),
        ([*PAGES, "management.oauth_provider_url = https://id.example"], "needs auth_backends.N = oauth2"),
        (["management.disable_basic_auth = true"], "needs auth_backends.N = oauth2"),
        ([*TOKENS, KEYS, *PAGES, "management.oauth_provider_url = http://id.example"], "must be a URL with https"),
        (["management.oauth_initiated_logon_type = idp_initiated"], "must be one of sp_initiated"),
    ],
)
def test_a_login_of_the_pages_that_cannot_work_stops_the_node(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        read(tmp_path, *lines)
