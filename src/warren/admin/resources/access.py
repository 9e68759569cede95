"""Virtual hosts, users, permissions and limits, to read.

Not here: changing them.
"""

from collections.abc import Iterable

from warren.access.permissions import Permission, TopicPermission
from warren.admin.cluster.forwarding import ALONE
from warren.admin.cluster.question import Key
from warren.admin.cluster.sums import added
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import administrator, in_vhost_or_monitor, manager
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.columns import EVERYTHING
from warren.admin.listing.listed import Listed, Shared, whole
from warren.admin.listing.rows import answer_list, answer_object, answer_rows
from warren.admin.station import Station
from warren.admin.views.access import KNOWN_OF_VHOSTS, VhostRows, permission_row, topic_permission_row, user_row
from warren.broker.vhost import Vhost


def routes(station: Station) -> dict[str, Resource]:
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


async def all_vhosts(call: Call) -> Answer:
    rows = VhostRows(call.station.facts.name, call.station.history, spans_of(call.query))
    if call.flag("disable_stats"):
        return await answer_list(call, Listed(_seen_vhosts(call), whole(rows.bare), _vhost_name))
    vhosts = call.station.broker.vhosts

    def find(key: Key) -> Vhost | None:
        return vhosts.get(key[0])

    spread = Shared(_vhost_key, find, _everywhere, rows.share, rows.bare, KNOWN_OF_VHOSTS)
    return await answer_list(call, Listed(_seen_vhosts(call), rows.plan, _vhost_name, spread=spread))


async def one_vhost(call: Call) -> Answer:
    rows = VhostRows(call.station.facts.name, call.station.history, spans_of(call.query))
    vhost = call.vhost()
    if call.part is not None:
        return json_answer(rows.share(EVERYTHING)(vhost))
    row = rows.plan(EVERYTHING)(vhost)
    for told in (await call.station.peers.ask_all(call.question(ALONE))).values():
        if told.status == 200:
            row = added(row, told.document)
    return answer_object(call, row)


async def all_vhost_limits(call: Call) -> Answer:
    return await _vhost_limits(call, _seen_vhosts(call))


async def limits_of_vhost(call: Call) -> Answer:
    return await _vhost_limits(call, [call.vhost()])


def _seen_vhosts(call: Call) -> list[Vhost]:
    vhosts = call.station.broker.vhosts
    return [vhosts[name] for name in sorted(vhosts) if call.visitor.is_monitor or name in call.visitor.vhosts]


def _vhost_key(vhost: Vhost) -> Key:
    return (vhost.name,)


def _everywhere(vhost: Vhost) -> str:
    """Every node has all virtual hosts, and counts what its own clients and queues do."""
    return ""


def _vhost_name(vhost: Vhost) -> str:
    return vhost.name


async def _vhost_limits(call: Call, vhosts: list[Vhost]) -> Answer:
    rows = [{"vhost": vhost.name, "value": dict(vhost.limits)} for vhost in vhosts if vhost.limits]
    return await answer_rows(call, rows, ("vhost",))


# -- users


async def all_users(call: Call) -> Answer:
    users = call.station.broker.access.users.values()
    return await answer_rows(call, [user_row(user) for user in users], ("name",))


async def users_without_permissions(call: Call) -> Answer:
    access = call.station.broker.access
    with_permissions = {user for user, _ in access.permissions}
    rows = [user_row(user) for name, user in access.users.items() if name not in with_permissions]
    return await answer_rows(call, rows, ("name",))


async def one_user(call: Call) -> Answer:
    return answer_object(call, user_row(call.station.broker.access.users[_user(call)]))


async def all_user_limits(call: Call) -> Answer:
    return await _user_limits(call, call.station.broker.access.users)


async def limits_of_user(call: Call) -> Answer:
    return await _user_limits(call, [_user(call)])


async def _user_limits(call: Call, names: Iterable[str]) -> Answer:
    users = call.station.broker.access.users
    rows = [{"user": name, "value": dict(users[name].limits)} for name in names if users[name].limits]
    return await answer_rows(call, rows, ("user",))


def _user(call: Call) -> str:
    """The user that the path names, or 404."""
    name = call.params["user"]
    if name not in call.station.broker.access.users:
        raise not_found()
    return name


# -- permissions


async def all_permissions(call: Call) -> Answer:
    return await _permissions(call, call.station.broker.access.permissions.values())


async def permissions_of_vhost(call: Call) -> Answer:
    return await _permissions(call, call.station.broker.access.permissions_in(call.vhost().name))


async def permissions_of_user(call: Call) -> Answer:
    return await _permissions(call, call.station.broker.access.permissions_of_user(_user(call)))


async def one_permission(call: Call) -> Answer:
    found = call.station.broker.access.permissions.get((call.params["user"], call.vhost().name))
    if found is None:
        raise not_found()
    return answer_object(call, permission_row(found))


async def all_topic_permissions(call: Call) -> Answer:
    return await _topic_permissions(call, call.station.broker.access.topic_permissions.values())


async def topic_permissions_of_vhost(call: Call) -> Answer:
    return await _topic_permissions(call, call.station.broker.access.topic_permissions_in(call.vhost().name))


async def topic_permissions_of_user(call: Call) -> Answer:
    return await _topic_permissions(call, call.station.broker.access.topic_permissions_of_user(_user(call)))


async def topic_permissions_in(call: Call) -> Answer:
    """All of a user's in a virtual host, whether the path names an exchange or not, as in RabbitMQ."""
    vhost = call.vhost().name
    all_of_user = call.station.broker.access.topic_permissions_of_user(_user(call))
    found = [permission for permission in all_of_user if permission.vhost == vhost]
    if not found:
        raise not_found()
    return await _topic_permissions(call, found)


async def _permissions(call: Call, permissions: Iterable[Permission]) -> Answer:
    return await answer_rows(call, [permission_row(one) for one in permissions], ("user", "vhost"))


async def _topic_permissions(call: Call, permissions: Iterable[TopicPermission]) -> Answer:
    return await answer_rows(call, [topic_permission_row(one) for one in permissions], ("user", "vhost", "exchange"))
