"""Permissions and topic permissions of users in virtual hosts: paths, rows and changes.

Not here: what a permission allows (`broker.access`).
"""

from collections.abc import Iterable
from typing import Any

from warren.admin.http.documents import require, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    created,
    no_content,
    not_found,
)
from warren.admin.http.router import Resource, Routes, administrator
from warren.admin.http.schemas import PATTERN, TEXT, an_object
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.resources.users import user_named
from warren.broker.access.users import Permission, TopicPermission
from warren.broker.commands.requests import (
    ClearPermission,
    ClearTopicPermission,
    SetPermission,
    SetTopicPermission,
)


def permission_row(permission: Permission) -> dict[str, Any]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def topic_permission_row(permission: TopicPermission) -> dict[str, Any]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def _listed(row: dict[str, Any], fault: str) -> dict[str, Any]:
    """The row, and why a recorded expression allows nothing."""
    return {**row, "fault": fault} if fault else row


def routes() -> Routes:
    return {
        "/api/permissions": Resource(administrator, {"GET": all_permissions}),
        "/api/permissions/{vhost}/{user}": Resource(
            administrator,
            {"GET": one_permission, "PUT": set_permission, "DELETE": clear_permission},
            an_object({"configure": PATTERN, "write": PATTERN, "read": PATTERN}),
        ),
        "/api/users/{user}/permissions": Resource(administrator, {"GET": permissions_of_user}),
        "/api/vhosts/{vhost}/permissions": Resource(administrator, {"GET": permissions_of_vhost}),
        "/api/topic-permissions": Resource(administrator, {"GET": all_topic_permissions}),
        "/api/topic-permissions/{vhost}/{user}": Resource(
            administrator,
            {"GET": topic_permissions_in, "PUT": set_topic_permission, "DELETE": clear_topic_permissions},
            an_object({"exchange": TEXT, "write": PATTERN, "read": PATTERN}),
        ),
        "/api/topic-permissions/{vhost}/{user}/{exchange}": Resource(
            administrator, {"GET": topic_permissions_in, "DELETE": clear_topic_permissions}
        ),
        "/api/users/{user}/topic-permissions": Resource(administrator, {"GET": topic_permissions_of_user}),
        "/api/vhosts/{vhost}/topic-permissions": Resource(administrator, {"GET": topic_permissions_of_vhost}),
    }


async def all_permissions(call: ApiRequest) -> ApiResponse:
    return await _permissions(call, call.context.broker.access.permissions.values())


async def permissions_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _permissions(call, call.context.broker.access.permissions_in(call.vhost().name))


async def permissions_of_user(call: ApiRequest) -> ApiResponse:
    return await _permissions(call, call.context.broker.access.permissions_of_user(user_named(call)))


async def one_permission(call: ApiRequest) -> ApiResponse:
    found = call.context.broker.access.permissions.get((call.params["user"], call.vhost().name))
    if found is None:
        raise not_found()
    return object_response(call, _listed(permission_row(found), found.fault()))


async def all_topic_permissions(call: ApiRequest) -> ApiResponse:
    return await _topic_permissions(call, call.context.broker.access.topic_permissions.values())


async def topic_permissions_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _topic_permissions(call, call.context.broker.access.topic_permissions_in(call.vhost().name))


async def topic_permissions_of_user(call: ApiRequest) -> ApiResponse:
    return await _topic_permissions(call, call.context.broker.access.topic_permissions_of_user(user_named(call)))


async def topic_permissions_in(call: ApiRequest) -> ApiResponse:
    """All of a user's in a virtual host, also if the path names an exchange, as in RabbitMQ."""
    vhost = call.vhost().name
    all_of_user = call.context.broker.access.topic_permissions_of_user(user_named(call))
    found = [permission for permission in all_of_user if permission.vhost == vhost]
    if not found:
        raise not_found()
    return await _topic_permissions(call, found)


async def _permissions(call: ApiRequest, permissions: Iterable[Permission]) -> ApiResponse:
    rows = (_listed(permission_row(one), one.fault()) for one in list(permissions))
    return await rows_response(call, rows, ("user", "vhost"))


async def _topic_permissions(call: ApiRequest, permissions: Iterable[TopicPermission]) -> ApiResponse:
    rows = (_listed(topic_permission_row(one), one.fault()) for one in list(permissions))
    return await rows_response(call, rows, ("user", "vhost", "exchange"))


async def set_permission(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "configure", "write", "read")
    user, vhost = call.params["user"], call.params["vhost"]
    patterns = [text(document, name) for name in ("configure", "write", "read")]
    return await call.carry_out(SetPermission(user, vhost, *patterns))


async def clear_permission(call: ApiRequest) -> ApiResponse:
    return await call.carry_out(ClearPermission(call.params["user"], call.params["vhost"]))


async def set_topic_permission(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "exchange", "write", "read")
    user, vhost = call.params["user"], call.params["vhost"]
    patterns = [text(document, name) for name in ("exchange", "write", "read")]
    is_new = not _has_topic_permissions(call)
    await call.carry_out(SetTopicPermission(user, vhost, *patterns))
    return created() if is_new else no_content()


async def clear_topic_permissions(call: ApiRequest) -> ApiResponse:
    """Clear all of a user's in the virtual host, or the one for the exchange of the path, if there is one."""
    if not _has_topic_permissions(call):
        raise not_found()
    user, vhost, exchange = call.params["user"], call.params["vhost"], call.params.get("exchange")
    if exchange is None or (user, vhost, exchange) in call.context.broker.access.topic_permissions:
        await call.carry_out(ClearTopicPermission(user, vhost, exchange))
    return no_content()


def _has_topic_permissions(call: ApiRequest) -> bool:
    """Whether the user has any in the virtual host; to RabbitMQ they are one object."""
    wanted = (call.params["user"], call.params["vhost"])
    return any(key[:2] == wanted for key in call.context.broker.access.topic_permissions)
