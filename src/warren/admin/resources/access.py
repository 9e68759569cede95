"""Virtual hosts, users, permissions and limits, to read.

Not here: changing them.

Virtual hosts, users, permissions and limits as rows.

Not here: what they allow (`access`).

Users are made, changed and deleted, with their permissions and limits.

Not here: reading them (`resources.access`), hashing (`admin.resources.access`).

Virtual hosts are made, described anew, limited and deleted.

Whoever makes one may do everything in it, as in RabbitMQ.

Not here: reading them (`resources.access`).

Makes hashes of passwords that operators set.

That takes longer than the event loop may wait, so it is done in a thread, one at a time for each who asks.

Not here: the hashes (`broker.access.passwords`), checking a password (`broker.access.logins`).
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Callable, Iterable
from typing import Any

from warren.admin import message_stats
from warren.admin.context import AdminContext
from warren.admin.forwarding import ALONE
from warren.admin.http.documents import Document, flag, names_in, require, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    created,
    json_response,
    no_content,
    not_found,
)
from warren.admin.http.router import Handler, Resource, administrator, in_vhost_or_monitor, manager
from warren.admin.listing.columns import ALL_COLUMNS, ColumnSelection
from warren.admin.listing.lists import ObjectList, SharedObjects, full_rows
from warren.admin.listing.responses import list_response, object_response, rows_response
from warren.admin.message_stats import added, sample_spans
from warren.admin.peers import RowKey
from warren.admin.ports import HistoryPort, SampleSpans
from warren.broker.access.passwords import SALT_OCTETS, SHA256, hash_password
from warren.broker.access.users import Permission, TopicPermission, User
from warren.broker.commands.requests import (
    ClearPermission,
    ClearTopicPermission,
    ClearUserLimits,
    ClearVhostLimits,
    DeleteUser,
    DeleteVhost,
    PutUser,
    PutVhost,
    SetPermission,
    SetTopicPermission,
    SetUserLimits,
    SetVhostLimits,
)
from warren.broker.model.events import Command, CommandBatch
from warren.broker.model.settings import BrokerSettings
from warren.broker.snapshots import NodeQueueTotals
from warren.broker.vhost import Vhost
from warren.errors import Refused

KNOWN_OF_VHOSTS = frozenset({"default_queue_type", "description", "metadata", "name", "tags", "tracing"})
"""What is agreed about a virtual host."""

_LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")


class VhostRows:
    """Builds rows of virtual hosts."""

    def __init__(self, node: str, history: HistoryPort, spans: SampleSpans) -> None:
        self._node = node
        self._history = history
        self._spans = spans

    def plan(self, wanted: ColumnSelection) -> Callable[[Vhost], dict[str, Any]]:
        """How to build the wanted part of a row; lengths are those of all queues, so they are worth leaving out."""
        share = self.share(wanted)
        return lambda vhost: self.bare(vhost) | share(vhost)

    def share(self, wanted: ColumnSelection) -> Callable[[Vhost], dict[str, Any]]:
        """How to build what this node alone knows of one."""
        counts_messages = wanted.any_of(*_LENGTHS, *(f"{name}_details" for name in _LENGTHS))

        def build(vhost: Vhost) -> dict[str, Any]:
            row: dict[str, Any] = {"cluster_state": {self._node: "running"}}
            if counts_messages:
                sums = NodeQueueTotals([vhost])
                lengths = message_stats.queue_lengths(sums.ready, sums.unacked)
                row |= self._history.rated("vhost", vhost.name, lengths, self._spans.lengths)
            counted = message_stats.vhost_counters(vhost.stats)
            message_stats.add_message_stats(row, self._history, "vhost", vhost.name, counted, self._spans.messages)
            if vhost.stats.received_bytes:
                octets = {"recv_oct": int(vhost.stats.received_bytes), "send_oct": int(vhost.stats.sent_bytes)}
                row |= self._history.rated("vhost", vhost.name, octets, self._spans.bytes)
            return row

        return build

    def bare(self, vhost: Vhost) -> dict[str, Any]:
        return {
            "cluster_state": {self._node: "running"},
            "default_queue_type": "undefined",
            "description": vhost.description,
            "metadata": {"description": vhost.description, "tags": vhost.tags},
            "name": vhost.name,
            "tags": vhost.tags,
            "tracing": vhost.tracing,
        }


def user_row(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "password_hash": base64.b64encode(user.password_hash).decode(),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": user.tags,
        "limits": user.limits,
    }


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


def routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/vhosts": Resource(manager, {"GET": all_vhosts}),
        "/api/vhosts/{vhost}": Resource(administrator, {"GET": one_vhost}),
        "/api/vhosts/{vhost}/permissions": Resource(administrator, {"GET": permissions_of_vhost}),
        "/api/vhosts/{vhost}/topic-permissions": Resource(administrator, {"GET": topic_permissions_of_vhost}),
        "/api/users": Resource(administrator, {"GET": all_users}),
        "/api/users/without-permissions": Resource(administrator, {"GET": users_without_permissions}),
        "/api/users/{user}": Resource(administrator, {"GET": one_user}),
        "/api/users/{user}/permissions": Resource(administrator, {"GET": permissions_of_user}),
        "/api/users/{user}/topic-permissions": Resource(administrator, {"GET": topic_permissions_of_user}),
        "/api/permissions": Resource(administrator, {"GET": all_permissions}),
        "/api/permissions/{vhost}/{user}": Resource(administrator, {"GET": one_permission}),
        "/api/topic-permissions": Resource(administrator, {"GET": all_topic_permissions}),
        "/api/topic-permissions/{vhost}/{user}": Resource(administrator, {"GET": topic_permissions_in}),
        "/api/topic-permissions/{vhost}/{user}/{exchange}": Resource(administrator, {"GET": topic_permissions_in}),
        "/api/vhost-limits": Resource(manager, {"GET": all_vhost_limits}),
        "/api/vhost-limits/{vhost}": Resource(in_vhost_or_monitor, {"GET": limits_of_vhost}),
        "/api/user-limits": Resource(manager, {"GET": all_user_limits}),
        "/api/user-limits/{user}": Resource(manager, {"GET": limits_of_user}),
    }


# -- virtual hosts


async def all_vhosts(call: ApiRequest) -> ApiResponse:
    rows = VhostRows(call.context.facts.name, call.context.history, sample_spans(call.query))
    if call.flag("disable_stats"):
        return await list_response(call, ObjectList(_seen_vhosts(call), full_rows(rows.bare), _vhost_name))
    vhosts = call.context.broker.vhosts

    def find(key: RowKey) -> Vhost | None:
        return vhosts.get(key[0])

    spread = SharedObjects(_vhost_key, find, _everywhere, rows.share, rows.bare, KNOWN_OF_VHOSTS)
    return await list_response(call, ObjectList(_seen_vhosts(call), rows.plan, _vhost_name, spread=spread))


async def one_vhost(call: ApiRequest) -> ApiResponse:
    rows = VhostRows(call.context.facts.name, call.context.history, sample_spans(call.query))
    vhost = call.vhost()
    if call.part is not None:
        return json_response(rows.share(ALL_COLUMNS)(vhost))
    row = rows.plan(ALL_COLUMNS)(vhost)
    for told in (await call.context.peers.ask_all(call.question(ALONE))).values():
        if told.status == 200:
            row = added(row, told.document)
    return object_response(call, row)


async def all_vhost_limits(call: ApiRequest) -> ApiResponse:
    return await _vhost_limits(call, _seen_vhosts(call))


async def limits_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _vhost_limits(call, [call.vhost()])


def _seen_vhosts(call: ApiRequest) -> list[Vhost]:
    vhosts = call.context.broker.vhosts
    return [vhosts[name] for name in sorted(vhosts) if call.api_user.is_monitor or name in call.api_user.vhosts]


def _vhost_key(vhost: Vhost) -> RowKey:
    return (vhost.name,)


def _everywhere(vhost: Vhost) -> str:
    """Every node has all virtual hosts, and counts what its own clients and queues do."""
    return ""


def _vhost_name(vhost: Vhost) -> str:
    return vhost.name


async def _vhost_limits(call: ApiRequest, vhosts: list[Vhost]) -> ApiResponse:
    rows = [{"vhost": vhost.name, "value": dict(vhost.limits)} for vhost in vhosts if vhost.limits]
    return await rows_response(call, rows, ("vhost",))


# -- users


async def all_users(call: ApiRequest) -> ApiResponse:
    users = call.context.broker.access.users.values()
    return await rows_response(call, [user_row(user) for user in users], ("name",))


async def users_without_permissions(call: ApiRequest) -> ApiResponse:
    access = call.context.broker.access
    with_permissions = {user for user, _ in access.permissions}
    rows = [user_row(user) for name, user in access.users.items() if name not in with_permissions]
    return await rows_response(call, rows, ("name",))


async def one_user(call: ApiRequest) -> ApiResponse:
    return object_response(call, user_row(call.context.broker.access.users[_user(call)]))


async def all_user_limits(call: ApiRequest) -> ApiResponse:
    return await _user_limits(call, call.context.broker.access.users)


async def limits_of_user(call: ApiRequest) -> ApiResponse:
    return await _user_limits(call, [_user(call)])


async def _user_limits(call: ApiRequest, names: Iterable[str]) -> ApiResponse:
    users = call.context.broker.access.users
    rows = [{"user": name, "value": dict(users[name].limits)} for name in names if users[name].limits]
    return await rows_response(call, rows, ("user",))


def _user(call: ApiRequest) -> str:
    """The user that the path names, or 404."""
    name = call.params["user"]
    if name not in call.context.broker.access.users:
        raise not_found()
    return name


# -- permissions


async def all_permissions(call: ApiRequest) -> ApiResponse:
    return await _permissions(call, call.context.broker.access.permissions.values())


async def permissions_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _permissions(call, call.context.broker.access.permissions_in(call.vhost().name))


async def permissions_of_user(call: ApiRequest) -> ApiResponse:
    return await _permissions(call, call.context.broker.access.permissions_of_user(_user(call)))


async def one_permission(call: ApiRequest) -> ApiResponse:
    found = call.context.broker.access.permissions.get((call.params["user"], call.vhost().name))
    if found is None:
        raise not_found()
    return object_response(call, permission_row(found))


async def all_topic_permissions(call: ApiRequest) -> ApiResponse:
    return await _topic_permissions(call, call.context.broker.access.topic_permissions.values())


async def topic_permissions_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _topic_permissions(call, call.context.broker.access.topic_permissions_in(call.vhost().name))


async def topic_permissions_of_user(call: ApiRequest) -> ApiResponse:
    return await _topic_permissions(call, call.context.broker.access.topic_permissions_of_user(_user(call)))


async def topic_permissions_in(call: ApiRequest) -> ApiResponse:
    """All of a user's in a virtual host, whether the path names an exchange or not, as in RabbitMQ."""
    vhost = call.vhost().name
    all_of_user = call.context.broker.access.topic_permissions_of_user(_user(call))
    found = [permission for permission in all_of_user if permission.vhost == vhost]
    if not found:
        raise not_found()
    return await _topic_permissions(call, found)


async def _permissions(call: ApiRequest, permissions: Iterable[Permission]) -> ApiResponse:
    return await rows_response(call, [permission_row(one) for one in permissions], ("user", "vhost"))


async def _topic_permissions(call: ApiRequest, permissions: Iterable[TopicPermission]) -> ApiResponse:
    return await rows_response(call, [topic_permission_row(one) for one in permissions], ("user", "vhost", "exchange"))


async def hashed(algorithm: str, password: str) -> bytes:
    """What the node keeps of a password; of an empty one nothing, so that nobody can log in with it."""
    if not password:
        return b""
    return await asyncio.to_thread(hash_password, algorithm, password, os.urandom(SALT_OCTETS))


def decoded(password_hash: str) -> bytes:
    """A hash as definitions have it, in Base64; `Refused` if it is not."""
    try:
        return base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("bad_request", f"not_base64: {password_hash}") from error


def encoded(password_hash: bytes) -> str:
    """The hash as definitions have it."""
    return base64.b64encode(password_hash).decode()


def user_change_routes(context: AdminContext) -> dict[str, Resource]:
    paths: dict[str, dict[str, Handler]] = {
        "/api/users/{user}": {"PUT": put_user, "DELETE": delete_user},
        "/api/users/bulk-delete": {"POST": delete_users},
        "/api/user-limits/{user}/{name}": {"PUT": set_user_limit, "DELETE": clear_user_limit},
        "/api/permissions/{vhost}/{user}": {"PUT": set_permission, "DELETE": clear_permission},
        "/api/topic-permissions/{vhost}/{user}": {"PUT": set_topic_permission, "DELETE": clear_topic_permissions},
        "/api/topic-permissions/{vhost}/{user}/{exchange}": {"DELETE": clear_topic_permission},
    }
    return {path: Resource(administrator, handlers) for path, handlers in paths.items()}


async def put_user(call: ApiRequest) -> ApiResponse:
    settings = call.context.broker.settings
    return await carry_out(call, await user_command(settings, call.params["user"], await call.document()))


async def user_command(settings: BrokerSettings, name: str, document: Document) -> Command:
    """What a user's document asks for."""
    if "tags" not in document:
        raise bad_request("tags_not_present")
    tags = names_in(document, "tags")
    if "password_hash" in document:
        return _with_hash(name, document, tags)
    algorithm = settings.password_hashing_module
    return PutUser(name, await hashed(algorithm, text(document, "password")), algorithm, tags)


def _with_hash(name: str, document: Document, tags: list[str]) -> Command:
    if "password" in document:
        raise bad_request("both_password_and_password_hash_are_provided")
    given: Any = document["password_hash"]
    if not isinstance(given, str):
        raise HttpFault(400, "bad_request", ["not_base64", given])
    try:
        password_hash = decoded(given)
    except Refused:
        raise HttpFault(400, "bad_request", ["not_base64", given]) from None
    return PutUser(name, password_hash, text(document, "hashing_algorithm", SHA256), tags)


async def delete_user(call: ApiRequest) -> ApiResponse:
    return await carry_out(call, DeleteUser(call.params["user"]))


async def delete_users(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "users")
    known = call.context.broker.access.users
    names = names_in(document, "users")
    for name in names:
        if name not in known:
            raise HttpFault(400, "bad_request", ["no_such_user", name])
    return await carry_out(call, CommandBatch([DeleteUser(name) for name in dict.fromkeys(names)]))


async def set_user_limit(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "value")
    await carry_out(call, SetUserLimits(_limited(call), {call.params["name"]: document["value"]}))
    return no_content()


async def clear_user_limit(call: ApiRequest) -> ApiResponse:
    return await carry_out(call, ClearUserLimits(_limited(call), [call.params["name"]]))


def _limited(call: ApiRequest) -> str:
    name = call.params["user"]
    if name not in call.context.broker.access.users:
        raise HttpFault(400, "bad_request", ["no_such_user", name])
    return name


async def set_permission(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "configure", "write", "read")
    user, vhost = call.params["user"], call.params["vhost"]
    patterns = [text(document, name) for name in ("configure", "write", "read")]
    return await carry_out(call, SetPermission(user, vhost, *patterns))


async def clear_permission(call: ApiRequest) -> ApiResponse:
    return await carry_out(call, ClearPermission(call.params["user"], call.params["vhost"]))


async def set_topic_permission(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "exchange", "write", "read")
    user, vhost = call.params["user"], call.params["vhost"]
    patterns = [text(document, name) for name in ("exchange", "write", "read")]
    is_new = not _has_topic_permissions(call)
    await carry_out(call, SetTopicPermission(user, vhost, *patterns))
    return created() if is_new else no_content()


async def clear_topic_permissions(call: ApiRequest) -> ApiResponse:
    return await _clear_topics(call, None)


async def clear_topic_permission(call: ApiRequest) -> ApiResponse:
    return await _clear_topics(call, call.params["exchange"])


async def _clear_topics(call: ApiRequest, exchange: str | None) -> ApiResponse:
    """Of a user who has any in the virtual host; whether there was one for that exchange does not matter."""
    if not _has_topic_permissions(call):
        raise not_found()
    user, vhost = call.params["user"], call.params["vhost"]
    if exchange is None or (user, vhost, exchange) in call.context.broker.access.topic_permissions:
        await carry_out(call, ClearTopicPermission(user, vhost, exchange))
    return no_content()


def _has_topic_permissions(call: ApiRequest) -> bool:
    """Whether the user has any in the virtual host: together they are one thing to RabbitMQ."""
    wanted = (call.params["user"], call.params["vhost"])
    return any(key[:2] == wanted for key in call.context.broker.access.topic_permissions)


async def carry_out(call: ApiRequest, command: Command) -> ApiResponse:
    """201 if the command says that it made something, else 204."""
    return created() if await call.context.command_queue.carry_out(command) is True else no_content()


def vhost_change_routes(context: AdminContext) -> dict[str, Resource]:
    paths: dict[str, dict[str, Handler]] = {
        "/api/vhosts/{vhost}": {"PUT": put_vhost, "DELETE": delete_vhost},
        "/api/vhosts/{vhost}/start/{node}": {"POST": start_vhost},
        "/api/vhost-limits/{vhost}/{name}": {"PUT": set_vhost_limit, "DELETE": clear_vhost_limit},
    }
    return {path: Resource(administrator, handlers) for path, handlers in paths.items()}


async def put_vhost(call: ApiRequest) -> ApiResponse:
    name = call.params["vhost"]
    commands = [vhost_command(name, await call.document())]
    is_new = name not in call.context.broker.vhosts
    if is_new:
        commands.append(SetPermission(call.api_user.name, name, ".*", ".*", ".*"))
    await call.context.command_queue.carry_out(CommandBatch(commands))
    return created() if is_new else no_content()


def vhost_command(name: str, document: Document) -> Command:
    """What a virtual host's document asks for."""
    tags = names_in(document, "tags") if "tags" in document else []
    tracing = flag(document, "tracing") if "tracing" in document else None
    return PutVhost(name, text(document, "description"), tags, tracing)


async def delete_vhost(call: ApiRequest) -> ApiResponse:
    return await carry_out(call, DeleteVhost(call.params["vhost"]))


async def start_vhost(call: ApiRequest) -> ApiResponse:
    """They all run; this answers scripts that make sure of it."""
    node, name = call.params["node"], call.params["vhost"]
    if node != call.context.broker.settings.node_name:
        raise bad_request(f"Request to node {node} failed with nodedown")
    if name not in call.context.broker.vhosts:
        raise bad_request(f'Request to node {node} failed with {{no_such_vhost,<<"{name}">>}}')
    return no_content()


async def set_vhost_limit(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "value")
    if call.params["vhost"] not in call.context.broker.vhosts:
        raise HttpFault(404, "not_found", "vhost_not_found")
    await carry_out(call, SetVhostLimits(call.params["vhost"], {call.params["name"]: document["value"]}))
    return no_content()


async def clear_vhost_limit(call: ApiRequest) -> ApiResponse:
    return await carry_out(call, ClearVhostLimits(call.params["vhost"], [call.params["name"]]))
