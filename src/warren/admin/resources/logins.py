"""Logins over HTTP: the caller's own user, checking a password, and how many attempts a node saw.

Not here: who may log in (`admin.http.authentication`, `broker.access`).
"""

from typing import Any

from warren.admin.http.application import NO_PASSWORDS, log_in
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, no_content, not_authorised
from warren.admin.http.router import Resource, Routes, manager, monitor
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.peer_requests import at_node


def routes() -> Routes:
    return {
        "/api/whoami": Resource(manager, {"GET": whoami}),
        "/api/auth": Resource(None, {"GET": auth}),
        "/api/auth/attempts/{node}": Resource(
            monitor, {"GET": at_node(auth_attempts), "DELETE": at_node(forget_attempts)}
        ),
        "/api/auth/attempts/{node}/source": Resource(
            monitor, {"GET": at_node(auth_sources), "DELETE": at_node(forget_attempts)}
        ),
        "/api/login": Resource(None, {"POST": login}),
    }


async def whoami(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"name": call.api_user.name, "tags": call.api_user.tags})


async def auth(call: ApiRequest) -> ApiResponse:
    """How to log in. The fields of RabbitMQ 3.10, and those of later versions if the pages log in at an issuer."""
    facts: dict[str, Any] = {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}
    login = call.context.pages_login
    if login.enabled:
        facts |= {
            "oauth_enabled": True,
            "oauth_client_id": login.client_id,
            "oauth_metadata_url": login.discovery_url,
            "oauth_scopes": login.scopes,
            "oauth_disable_basic_auth": login.disable_basic_auth,
        }
        if login.client_secret:
            facts["oauth_client_secret"] = login.client_secret
    return json_response(facts)


async def auth_attempts(call: ApiRequest) -> ApiResponse:
    authenticator, stats = call.context.authenticator, call.context.broker.stats
    rows = [
        _attempts("http", authenticator.attempts, authenticator.refused),
        _attempts("amqp091", int(stats.logins), int(stats.logins_refused)),
    ]
    return await rows_response(call, rows)


def _attempts(protocol: str, attempts: int, failed: int) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "auth_attempts": attempts,
        "auth_attempts_failed": failed,
        "auth_attempts_succeeded": attempts - failed,
    }


async def forget_attempts(call: ApiRequest) -> ApiResponse:
    call.context.authenticator.forget_attempts()
    return no_content()


async def auth_sources(call: ApiRequest) -> ApiResponse:
    """Always empty: RabbitMQ counts by address only if configured to."""
    return json_response([])


async def login(call: ApiRequest) -> ApiResponse:
    """Check a user name and a password. There is no session."""
    if call.context.pages_login.disable_basic_auth:
        raise not_authorised(NO_PASSWORDS)
    form = await call.form()
    await log_in(call, form.get("username", ""), form.get("password", ""))
    return json_response("ok")
