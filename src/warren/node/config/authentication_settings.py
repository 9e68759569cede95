"""The settings of authentication: `auth_backends.*`, `auth_oauth2.*`, `initial_frame_max`.

`auth_backends.1 = internal` asks one backend who the client is and what it may do. `auth_backends.1.authn` and
`auth_backends.1.authz` name a backend for each; if one of the two is missing it is the same, as in RabbitMQ. The
numbers are the order in which the backends are asked.

`auth_oauth2.scope_aliases` has two forms, those of later versions of RabbitMQ: `.N.alias` with `.N.scope`, and
`.ALIAS = SCOPES`. RabbitMQ 3.10 has aliases in its advanced configuration only.

Not here: the keys and their parsers (`node.config.keys`), the settings of `http` and `cache`
(`node.config.http_auth_settings`), the backends (`broker.access.backends`).
"""

from collections.abc import Mapping
from typing import Any

from warren.broker.model.identity import CACHE, HTTP, INTERNAL, OAUTH2
from warren.broker.model.settings import AuthenticationSettings, OAuth2Settings
from warren.errors import ConfigError
from warren.node.config.http_auth_settings import http_backend_settings
from warren.node.key_settings import ALGORITHMS, KeySettings

AUTH_BACKENDS = {
    "internal": INTERNAL,
    "rabbit_auth_backend_internal": INTERNAL,
    "oauth2": OAUTH2,
    "rabbit_auth_backend_oauth2": OAUTH2,
    "http": HTTP,
    "rabbit_auth_backend_http": HTTP,
    "cache": CACHE,
    "rabbit_auth_backend_cache": CACHE,
}
"""The backends by the names that RabbitMQ gives them."""

_HOLDS_ANYWAY = ("oauth2.hostname_verification", "oauth2.peer_verification", "oauth2.verify_aud")
"""Settings whose default an operator may write down without tokens."""

_AUTHN = "authn"
_AUTHZ = "authz"


def authentication_settings(
    values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]
) -> AuthenticationSettings:
    """From the file and the environment."""
    settings = AuthenticationSettings()
    settings.initial_frame_max = values.get("initial_frame_max") or settings.initial_frame_max
    named = families.get("auth_backends")
    if named is not None:
        settings.backends = _chain(named)
    if any(OAUTH2 in place for place in settings.backends):
        settings.oauth2 = _oauth2_settings(values, families)
    elif any(name.startswith("oauth2.") and name not in _HOLDS_ANYWAY for name in [*values, *families]):
        raise ConfigError("auth_oauth2.* has no effect without auth_backends.N = oauth2")
    settings.http = http_backend_settings(settings.backends, values)
    return settings


def _chain(named: Mapping[str, str]) -> list[tuple[str, str]]:
    """The backends that authenticate and authorise, in order."""
    places: dict[int, dict[str, str]] = {}
    for member, name in named.items():
        number, _, part = member.partition(".")
        if not number.isascii() or not number.isdigit() or part not in ("", _AUTHN, _AUTHZ):
            raise ConfigError(f"auth_backends.{member} must be auth_backends.N, auth_backends.N.authn or .authz")
        backend, place = AUTH_BACKENDS[name], places.setdefault(int(number), {})
        for one in [part] if part else [_AUTHN, _AUTHZ]:
            if one in place:
                raise ConfigError(f"auth_backends.{number} has two backends for {one}")
            place[one] = backend
    chosen = [places[number] for number in sorted(places)]
    chain = [(place.get(_AUTHN) or place[_AUTHZ], place.get(_AUTHZ) or place[_AUTHN]) for place in chosen]
    if any(authz == OAUTH2 != authn for authn, authz in chain):
        raise ConfigError("auth_backends.N.authz = oauth2 needs .authn = oauth2: only the login's token has scopes")
    return chain


def _oauth2_settings(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> OAuth2Settings:
    if "oauth2.resource_server_id" not in values:
        raise ConfigError("auth_backends.N = oauth2 needs auth_oauth2.resource_server_id")
    return OAuth2Settings(
        values["oauth2.resource_server_id"],
        scope_prefix=values.get("oauth2.scope_prefix"),
        additional_scopes_key=values.get("oauth2.additional_scopes_key", ""),
        verify_aud=values.get("oauth2.verify_aud", True),
        issuer=values.get("oauth2.issuer", ""),
        username_claims=list(families.get("oauth2.username_claims", {}).values()),
        scope_aliases=_scope_aliases(families.get("oauth2.scope_aliases", {})),
    )


def _scope_aliases(named: Mapping[str, str]) -> dict[str, list[str]]:
    aliases: dict[str, list[str]] = {}
    for member, value in named.items():
        number, dot, part = member.rpartition(".")
        if not dot or not number.isdigit() or part not in ("alias", "scope"):
            aliases.setdefault(member, []).extend(value.split())
        elif f"{number}.alias" not in named or f"{number}.scope" not in named:
            raise ConfigError(f"auth_oauth2.scope_aliases.{number} needs both .alias and .scope")
        elif part == "scope":
            aliases.setdefault(named[f"{number}.alias"], []).extend(value.split())
    return aliases


def token_key_settings(values: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> KeySettings:
    """From the file and the environment. The files are read once, so that a faulty one stops the node."""
    settings = KeySettings(
        files=dict(families.get("oauth2.signing_keys", {})),
        default_key=values.get("oauth2.default_key", ""),
        jwks_url=values.get("oauth2.jwks_url", ""),
        issuer=values.get("oauth2.issuer", ""),
        cacertfile=values.get("oauth2.cacertfile", ""),
        algorithms=tuple(families.get("oauth2.algorithms", {}).values()) or ALGORITHMS,
    )
    if "oauth2.resource_server_id" in values and not settings.can_verify:
        raise ConfigError(
            "tokens cannot be verified without keys: set auth_oauth2.jwks_url, auth_oauth2.issuer or "
            "auth_oauth2.signing_keys.NAME"
        )
    if settings.default_key and settings.default_key not in settings.files and not settings.can_fetch:
        raise ConfigError(f"auth_oauth2.default_key names {settings.default_key}, which is not among the signing_keys")
    if settings.can_verify:
        _check_files(settings)
    return settings


def _check_files(settings: KeySettings) -> None:
    # only a node with tokens loads the libraries of signatures
    from warren.node.signing_keys import read_key_files, trust_of

    read_key_files(settings)
    trust_of(settings)
