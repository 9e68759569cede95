"""The settings of authentication: `auth_backends.*`.

`auth_backends.1 = internal` asks one backend who the client is and what it may do. `auth_backends.1.authn` and
`auth_backends.1.authz` name a backend for each; if one of the two is missing it is the same, as in RabbitMQ. The
numbers are the order in which the backends are asked.

Not here: the keys and their parsers (`node.config.keys`), the backends (`broker.access.backends`).
"""

from collections.abc import Mapping
from typing import Any

from warren.broker.model.identity import INTERNAL
from warren.broker.model.settings import AuthenticationSettings
from warren.errors import ConfigError

AUTH_BACKENDS = {
    "internal": INTERNAL,
    "rabbit_auth_backend_internal": INTERNAL,
}
"""The backends by the names that RabbitMQ gives them."""

_AUTHN = "authn"
_AUTHZ = "authz"


def authentication_settings(families: Mapping[str, Mapping[str, Any]]) -> AuthenticationSettings:
    """From the file and the environment."""
    settings = AuthenticationSettings()
    named = families.get("auth_backends")
    if named is not None:
        settings.backends = _chain(named)
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
    return [(place.get(_AUTHN) or place[_AUTHZ], place.get(_AUTHZ) or place[_AUTHN]) for place in chosen]
