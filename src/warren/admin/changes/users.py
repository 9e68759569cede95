"""Users are made, changed and deleted, with their permissions and limits.

Not here: reading them (`resources.access`), hashing (`admin.passwords`).
"""

from typing import Any

from warren.access.commands import (
    ClearPermission,
    ClearTopicPermission,
    ClearUserLimits,
    DeleteUser,
    PutUser,
    SetPermission,
    SetTopicPermission,
    SetUserLimits,
)
from warren.access.hashing import SHA256
from warren.admin import passwords
from warren.admin.changes.fields import Document, names_in, require, text
from warren.admin.http.answers import Answer, created, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request, not_found
from warren.admin.http.levels import administrator
from warren.admin.http.router import Handler, Resource
from warren.admin.station import Station
from warren.errors import Refused
from warren.model.commands import Command, Together
from warren.model.settings import BrokerSettings


def routes(station: Station) -> dict[str, Resource]:
    paths: dict[str, dict[str, Handler]] = {
        "/api/users/{user}": {"PUT": put_user, "DELETE": delete_user},
        "/api/users/bulk-delete": {"POST": delete_users},
        "/api/user-limits/{user}/{name}": {"PUT": set_limit, "DELETE": clear_limit},
        "/api/permissions/{vhost}/{user}": {"PUT": set_permission, "DELETE": clear_permission},
        "/api/topic-permissions/{vhost}/{user}": {"PUT": set_topic_permission, "DELETE": clear_topic_permissions},
        "/api/topic-permissions/{vhost}/{user}/{exchange}": {"DELETE": clear_topic_permission},
    }
    return {path: Resource(administrator, handlers) for path, handlers in paths.items()}


async def put_user(call: Call) -> Answer:
    settings = call.station.broker.settings
    return await carry_out(call, await user_command(settings, call.params["user"], await call.document()))


async def user_command(settings: BrokerSettings, name: str, document: Document) -> Command:
    """What a user's document asks for."""
    if "tags" not in document:
        raise bad_request("tags_not_present")
    tags = names_in(document, "tags")
    if "password_hash" in document:
        return _with_hash(name, document, tags)
    algorithm = settings.password_hashing_module
    return PutUser(name, await passwords.hashed(algorithm, text(document, "password")), algorithm, tags)


def _with_hash(name: str, document: Document, tags: list[str]) -> Command:
    if "password" in document:
        raise bad_request("both_password_and_password_hash_are_provided")
    given: Any = document["password_hash"]
    if not isinstance(given, str):
        raise HttpFault(400, "bad_request", ["not_base64", given])
    try:
        password_hash = passwords.decoded(given)
    except Refused:
        raise HttpFault(400, "bad_request", ["not_base64", given]) from None
    return PutUser(name, password_hash, text(document, "hashing_algorithm", SHA256), tags)


async def delete_user(call: Call) -> Answer:
    return await carry_out(call, DeleteUser(call.params["user"]))


async def delete_users(call: Call) -> Answer:
    document = await call.document()
    require(document, "users")
    known = call.station.broker.access.users
    names = names_in(document, "users")
    for name in names:
        if name not in known:
            raise HttpFault(400, "bad_request", ["no_such_user", name])
    return await carry_out(call, Together([DeleteUser(name) for name in dict.fromkeys(names)]))


async def set_limit(call: Call) -> Answer:
    document = await call.document()
    require(document, "value")
    await carry_out(call, SetUserLimits(_limited(call), {call.params["name"]: document["value"]}))
    return no_content()


async def clear_limit(call: Call) -> Answer:
    return await carry_out(call, ClearUserLimits(_limited(call), [call.params["name"]]))


def _limited(call: Call) -> str:
    name = call.params["user"]
    if name not in call.station.broker.access.users:
        raise HttpFault(400, "bad_request", ["no_such_user", name])
    return name


async def set_permission(call: Call) -> Answer:
    document = await call.document()
    require(document, "configure", "write", "read")
    user, vhost = call.params["user"], call.params["vhost"]
    patterns = [text(document, name) for name in ("configure", "write", "read")]
    return await carry_out(call, SetPermission(user, vhost, *patterns))


async def clear_permission(call: Call) -> Answer:
    return await carry_out(call, ClearPermission(call.params["user"], call.params["vhost"]))


async def set_topic_permission(call: Call) -> Answer:
    document = await call.document()
    require(document, "exchange", "write", "read")
    user, vhost = call.params["user"], call.params["vhost"]
    patterns = [text(document, name) for name in ("exchange", "write", "read")]
    is_new = not _has_topic_permissions(call)
    await carry_out(call, SetTopicPermission(user, vhost, *patterns))
    return created() if is_new else no_content()


async def clear_topic_permissions(call: Call) -> Answer:
    return await _clear_topics(call, None)


async def clear_topic_permission(call: Call) -> Answer:
    return await _clear_topics(call, call.params["exchange"])


async def _clear_topics(call: Call, exchange: str | None) -> Answer:
    """Of a user who has any in the virtual host; whether there was one for that exchange does not matter."""
    if not _has_topic_permissions(call):
        raise not_found()
    user, vhost = call.params["user"], call.params["vhost"]
    if exchange is None or (user, vhost, exchange) in call.station.broker.access.topic_permissions:
        await carry_out(call, ClearTopicPermission(user, vhost, exchange))
    return no_content()


def _has_topic_permissions(call: Call) -> bool:
    """Whether the user has any in the virtual host: together they are one thing to RabbitMQ."""
    wanted = (call.params["user"], call.params["vhost"])
    return any(key[:2] == wanted for key in call.station.broker.access.topic_permissions)


async def carry_out(call: Call, command: Command) -> Answer:
    """201 if the command says that it made something, else 204."""
    return created() if await call.station.desk.carry_out(command) is True else no_content()
