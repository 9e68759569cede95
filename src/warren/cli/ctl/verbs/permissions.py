"""What users may do where: permissions, and topic permissions of exchanges.

Not here: the users themselves (`users`).
"""

from typing import Any, Final

from warren.cli.ctl.failure import NO_SUCH_USER, Declined, Failure, failed, no_such_vhost
from warren.cli.ctl.verb import Call, Rows, Verb
from warren.cli.ctl.verbs.users import unknown_user

LISTS_USAGE: Final = "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]"


def _listed(call: Call, kind: str, columns: str) -> Rows:
    rows = call.api.find("vhosts", call.vhost, kind)
    if rows is None:
        raise no_such_vhost(call.vhost)
    return _rows(rows, columns)


def _listed_of_user(call: Call, kind: str, columns: str) -> Rows:
    rows = call.api.find("users", call.arguments[0], kind)
    if rows is None:
        raise unknown_user(call.arguments[0])
    return _rows(rows, columns)


def _rows(rows: list[dict[str, Any]], columns: str) -> Rows:
    names = columns.split()
    return Rows(names, [{name: row[name] for name in names} for row in rows])


def list_permissions(call: Call) -> Rows:
    return _listed(call, "permissions", "user configure write read")


def list_user_permissions(call: Call) -> Rows:
    return _listed_of_user(call, "permissions", "vhost configure write read")


def list_topic_permissions(call: Call) -> Rows:
    return _listed(call, "topic-permissions", "user exchange write read")


def list_user_topic_permissions(call: Call) -> Rows:
    rows = _listed_of_user(call, "topic-permissions", "vhost exchange write read")
    return Rows(rows.columns, rows.items, headed=False)


def set_permissions(call: Call) -> None:
    user, configure, write, read = call.arguments
    _put(call, "permissions", user, {"configure": configure, "write": write, "read": read})


def set_topic_permissions(call: Call) -> None:
    user, exchange, write, read = call.arguments
    _put(call, "topic-permissions", user, {"exchange": exchange, "write": write, "read": read})


def clear_permissions(call: Call) -> None:
    if not call.api.remove("permissions", call.vhost, call.arguments[0]):
        _require_both(call, call.arguments[0])


def clear_topic_permissions(call: Call) -> None:
    if not call.api.remove("topic-permissions", call.vhost, *call.arguments):
        _require_both(call, call.arguments[0])


def _put(call: Call, kind: str, user: str, body: dict[str, str]) -> None:
    try:
        call.api.put(kind, call.vhost, user, body=body)
    except Declined as answer:
        if answer.status in (400, 404):
            _require_both(call, user)
        raise


def _require_both(call: Call, user: str) -> None:
    """Say which of the two is not there; nothing when both are."""
    if call.api.find("users", user) is None:
        raise failed(f"User {user} does not exist", NO_SUCH_USER)
    if call.api.find("vhosts", call.vhost) is None:
        raise _no_vhost(call.vhost)


def _no_vhost(vhost: str) -> Failure:
    return failed(f"Virtual host {vhost} does not exist")


def _clear_topic_banner(call: Call) -> str:
    place = f' on "{call.arguments[1]}"' if len(call.arguments) > 1 else ""
    return f'Clearing topic permissions{place} for user "{call.arguments[0]}" in vhost "{call.vhost}" ...'


VERBS: Final = [
    Verb(
        "list_permissions",
        "Lists the permissions in a virtual host",
        list_permissions,
        LISTS_USAGE,
        "list_permissions -p /",
        'Listing permissions for vhost "{vhost}" ...',
    ),
    Verb(
        "list_user_permissions",
        "Lists the permissions of a user",
        list_user_permissions,
        "[--no-table-headers] <username> [--timeout <timeout>]",
        "list_user_permissions ops",
        'Listing permissions for user "{0}" ...',
        (1, 1),
    ),
    Verb(
        "set_permissions",
        "Lets a user configure, write and read what matches three patterns",
        set_permissions,
        "[--vhost <vhost>] <username> <conf> <write> <read>",
        "set_permissions -p / ops '^ops-' '.*' '.*'",
        'Setting permissions for user "{0}" in vhost "{vhost}" ...',
        (4, 4),
    ),
    Verb(
        "clear_permissions",
        "Takes a user's permissions in a virtual host away",
        clear_permissions,
        "[--vhost <vhost>] <username>",
        "clear_permissions -p / ops",
        'Clearing permissions for user "{0}" in vhost "{vhost}" ...',
        (1, 1),
    ),
    Verb(
        "list_topic_permissions",
        "Lists the topic permissions in a virtual host",
        list_topic_permissions,
        LISTS_USAGE,
        "list_topic_permissions -p /",
        'Listing topic permissions for vhost "{vhost}" ...',
    ),
    Verb(
        "list_user_topic_permissions",
        "Lists the topic permissions of a user",
        list_user_topic_permissions,
        "[--no-table-headers] <username> [--timeout <timeout>]",
        "list_user_topic_permissions ops",
        'Listing topic permissions for user "{0}" ...',
        (1, 1),
    ),
    Verb(
        "set_topic_permissions",
        "Limits the routing keys a user may use with a topic exchange",
        set_topic_permissions,
        "[--vhost <vhost>] <username> <exchange> <write> <read>",
        "set_topic_permissions ops amq.topic '^ops\\.' '.*'",
        'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
        (4, 4),
    ),
    Verb(
        "clear_topic_permissions",
        "Lifts the topic permissions of a user, all of them or those of an exchange",
        clear_topic_permissions,
        "[--vhost <vhost>] <username> [<exchange>]",
        "clear_topic_permissions ops amq.topic",
        _clear_topic_banner,
        (1, 2),
    ),
]
