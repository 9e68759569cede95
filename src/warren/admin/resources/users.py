"""Users and their limits: paths, rows and changes.

Hashing a password takes longer than the event loop may wait, so a thread does it.

Not here: permissions (`resources.permissions`), the hash algorithms (`broker.access.passwords`), checking a password
(`broker.access.logins`).
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Iterable
from typing import Any

from warren.admin.http.documents import Document, names_in, require, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    no_content,
    not_found,
)
from warren.admin.http.router import Resource, Routes, administrator, manager
from warren.admin.http.schemas import NAMES, TEXT, WHOLE, an_object
from warren.admin.listing.responses import object_response, rows_response
from warren.broker.access.passwords import SALT_OCTETS, SHA256, hash_password, password_refusal
from warren.broker.commands.requests import (
    ClearUserLimits,
    DeleteUser,
    PutUser,
    SetUserLimits,
)
from warren.broker.metadata.access_definitions import UserDefinition
from warren.broker.model.events import Command, CommandBatch
from warren.broker.model.settings import BrokerSettings
from warren.errors import CommandRefused


def user_row(user: UserDefinition) -> dict[str, Any]:
    return {
        "name": user.name,
        "password_hash": base64.b64encode(user.password_hash).decode(),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": user.tags,
        "limits": user.limits,
    }


def routes() -> Routes:
    return {
        "/api/users": Resource(administrator, {"GET": all_users}),
        "/api/users/without-permissions": Resource(administrator, {"GET": users_without_permissions}),
        "/api/users/bulk-delete": Resource(
            administrator, {"POST": delete_users}, an_object({"users": {"type": "array", "items": TEXT}})
        ),
        "/api/users/{user}": Resource(
            administrator,
            {"GET": one_user, "PUT": put_user, "DELETE": delete_user},
            an_object({"tags": NAMES}, password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT),
        ),
        "/api/user-limits": Resource(manager, {"GET": all_user_limits}),
        "/api/user-limits/{user}": Resource(manager, {"GET": limits_of_user}),
        "/api/user-limits/{user}/{name}": Resource(
            administrator, {"PUT": set_user_limit, "DELETE": clear_user_limit}, an_object({"value": WHOLE})
        ),
    }


async def all_users(call: ApiRequest) -> ApiResponse:
    users = list(call.context.broker.access.users.values())
    return await rows_response(call, map(user_row, users), ("name",))


async def users_without_permissions(call: ApiRequest) -> ApiResponse:
    access = call.context.broker.access
    with_permissions = {user for user, _ in access.permissions}
    users = [user for name, user in access.users.items() if name not in with_permissions]
    return await rows_response(call, map(user_row, users), ("name",))


async def one_user(call: ApiRequest) -> ApiResponse:
    return object_response(call, user_row(call.context.broker.access.users[user_named(call)]))


async def put_user(call: ApiRequest) -> ApiResponse:
    settings = call.context.broker.settings
    return await call.carry_out(await user_command(settings, call.params["user"], await call.document()))


async def user_command(settings: BrokerSettings, name: str, document: Document) -> Command:
    """The command for a user's document."""
    if "tags" not in document:
        raise bad_request("tags_not_present")
    tags = names_in(document, "tags")
    if "password_hash" in document:
        return _with_hash(name, document, tags)
    algorithm, password = settings.password_hashing_module, text(document, "password")
    refusal = password_refusal(password, settings.password_rules) if "password" in document else ""
    if refusal:
        raise bad_request(refusal)
    return PutUser(name, await hashed(algorithm, password), algorithm, tags)


def _with_hash(name: str, document: Document, tags: list[str]) -> Command:
    if "password" in document:
        raise bad_request("both_password_and_password_hash_are_provided")
    given: Any = document["password_hash"]
    if not isinstance(given, str):
        raise HttpFault(400, "bad_request", ["not_base64", given])
    try:
        password_hash = decoded(given)
    except CommandRefused:
        raise HttpFault(400, "bad_request", ["not_base64", given]) from None
    return PutUser(name, password_hash, text(document, "hashing_algorithm", SHA256), tags)


async def hashed(algorithm: str, password: str) -> bytes:
    """The hash of a password. An empty password has an empty hash, which no login matches."""
    if not password:
        return b""
    return await asyncio.to_thread(hash_password, algorithm, password, os.urandom(SALT_OCTETS))


def decoded(password_hash: str) -> bytes:
    """A Base64 hash of a definition; `CommandRefused` if it is not Base64."""
    try:
        return base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CommandRefused("bad_request", f"not_base64: {password_hash}") from error


def encoded(password_hash: bytes) -> str:
    """The hash as Base64, as in definitions."""
    return base64.b64encode(password_hash).decode()


async def delete_user(call: ApiRequest) -> ApiResponse:
    return await call.carry_out(DeleteUser(call.params["user"]))


async def delete_users(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "users")
    known = call.context.broker.access.users
    names = names_in(document, "users")
    for name in names:
        if name not in known:
            raise HttpFault(400, "bad_request", ["no_such_user", name])
    return await call.carry_out(CommandBatch([DeleteUser(name) for name in dict.fromkeys(names)]))


async def all_user_limits(call: ApiRequest) -> ApiResponse:
    return await _user_limits(call, call.context.broker.access.users)


async def limits_of_user(call: ApiRequest) -> ApiResponse:
    return await _user_limits(call, [user_named(call)])


async def _user_limits(call: ApiRequest, names: Iterable[str]) -> ApiResponse:
    users = call.context.broker.access.users
    rows = [{"user": name, "value": dict(users[name].limits)} for name in names if users[name].limits]
    return await rows_response(call, rows, ("user",))


async def set_user_limit(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "value")
    await call.carry_out(SetUserLimits(_limited(call), {call.params["name"]: document["value"]}))
    return no_content()


async def clear_user_limit(call: ApiRequest) -> ApiResponse:
    return await call.carry_out(ClearUserLimits(_limited(call), [call.params["name"]]))


def _limited(call: ApiRequest) -> str:
    name = call.params["user"]
    if name not in call.context.broker.access.users:
        raise HttpFault(400, "bad_request", ["no_such_user", name])
    return name


def user_named(call: ApiRequest) -> str:
    """The user in the path; 404 if there is none."""
    name = call.params["user"]
    if name not in call.context.broker.access.users:
        raise not_found()
    return name
