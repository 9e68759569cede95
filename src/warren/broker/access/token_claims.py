"""The claims of an access token: for whom it is, whom it names, and which scopes it has.

The rules are those of RabbitMQ's plugin. A token is for this broker if its `aud` names the resource server. Scopes are
in the claim `scope`, as a text with spaces or as a list; in the claim that `additional_scopes_key` names, where an
object has the scopes of each resource server; and in `authorization.permissions`, as Keycloak writes them. A scope
alias stands for one or more scopes. Then scopes without the prefix of this server are dropped, and the prefix is
removed from the others.

The claims come from outside: every value may have any type. A value of the wrong type means that the token is refused
(`aud`, `scope`), or counts as absent.

Not here: the signature and the lifetime (`node.token_verification`), the grammar of a scope (`broker.access.scopes`).
"""

from typing import final

from warren.broker.access.scopes import tags_of
from warren.broker.model.settings import OAuth2Settings

Claims = dict[str, object]


class ClaimsRefused(Exception):
    """The token is genuine, but not for this broker."""


@final
class TokenGrant:
    """What a token says."""

    def __init__(self, user: str, scopes: list[str]) -> None:
        # empty if the token names no user
        self.user = user
        self.scopes = scopes
        self.tags = tags_of(scopes)


def grant_of(claims: Claims, settings: OAuth2Settings) -> TokenGrant:
    """The user and the scopes of a token; `ClaimsRefused` if it is not for this broker."""
    if settings.issuer and claims.get("iss") != settings.issuer:
        raise ClaimsRefused("the token is of another issuer")
    if settings.verify_aud and settings.resource_server_id not in _audience(claims):
        raise ClaimsRefused(f"'{settings.resource_server_id}' is not in the token's aud")
    return TokenGrant(_user(claims, settings), _scopes(claims, settings))


def _audience(claims: Claims) -> list[str]:
    audience = claims.get("aud")
    if isinstance(audience, str):
        return audience.split(" ")
    return _texts(audience)


def _user(claims: Claims, settings: OAuth2Settings) -> str:
    for name in settings.username_claims:
        value = claims.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _scopes(claims: Claims, settings: OAuth2Settings) -> list[str]:
    scope = claims.get("scope", [])
    if not isinstance(scope, str | list):
        raise ClaimsRefused("the token's scope is neither a text nor a list")
    found = [*_words(scope), *_additional(claims, settings), *_of_keycloak(claims)]
    if not found and "scope" not in claims:
        raise ClaimsRefused("the token has no scope")
    for one in list(found):
        found += settings.scope_aliases.get(one, [])
    prefix = settings.scope_prefix
    return [one.removeprefix(prefix) for one in dict.fromkeys(found) if one.startswith(prefix)]


def _additional(claims: Claims, settings: OAuth2Settings) -> list[str]:
    claim = claims.get(settings.additional_scopes_key) if settings.additional_scopes_key else None
    if isinstance(claim, dict):
        # by resource server, so the scopes have no prefix
        own = claim.get(settings.resource_server_id)
        return [f"{settings.scope_prefix}{one}" for one in _words(own)]
    return _words(claim)


def _of_keycloak(claims: Claims) -> list[str]:
    authorization = claims.get("authorization")
    permissions = authorization.get("permissions") if isinstance(authorization, dict) else None
    found: list[str] = []
    for permission in permissions if isinstance(permissions, list) else []:
        scopes = permission.get("scopes") if isinstance(permission, dict) else None
        found += [scopes] if isinstance(scopes, str) else _texts(scopes)
    return found


def _words(value: object) -> list[str]:
    """The words of a text, or the texts of a list."""
    return [word for word in value.split(" ") if word] if isinstance(value, str) else _texts(value)


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
