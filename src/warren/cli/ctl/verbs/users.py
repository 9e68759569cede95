"""Users, their passwords, tags, limits, permissions and topic permissions.

The HTTP API replaces a user as a whole, so a verb that changes one part reads the rest first.

Not here: hashing, which the server does.
"""

import base64
import hashlib
import os
from collections.abc import Callable
from typing import Any, Final

from warren.cli.ctl.api import DATA_ERROR, NO_SUCH_USER, SOFTWARE, ApiRefusal, Failure, failed, no_such_vhost
from warren.cli.ctl.verb import MANY, Rows, Text, Verb, VerbCall, VerbResult, no_empty_name
from warren.cli.ctl.verbs.parameters import decoded, shown_limits

LIMITS: Final = ("max-connections", "max-channels")
WELCOME: Final = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'warren ctl help set_permissions' to learn more."
)


def _user(call: VerbCall, name: str) -> dict[str, Any]:
    user: dict[str, Any] | None = call.api.find("users", name)
    if user is None:
        raise failed(f'User "{name}" does not exist', NO_SUCH_USER)
    return user


def unknown_user(name: str) -> Failure:
    """The error of verbs that print the server's internal term."""
    return failed(f'{{:no_such_user, "{name}"}}')


def list_users(call: VerbCall) -> Rows:
    users = call.api.get("users")
    return Rows(["user", "tags"], [{"user": user["name"], "tags": _tags(user)} for user in users])


def _tags(user: dict[str, Any]) -> list[str]:
    tags = user.get("tags") or []
    return tags if isinstance(tags, list) else [tag.strip() for tag in tags.split(",")]


def add_user(call: VerbCall) -> Text:
    name = call.arguments[0]
    password = call.password(1, DATA_ERROR)
    if call.api.find("users", name) is not None:
        raise failed(f'User "{name}" already exists', SOFTWARE)
    call.api.put("users", name, body={"password": password, "tags": ""})
    return Text(WELCOME, {"message": WELCOME, "node": call.node, "status": "ok"}, chatty=True)


def delete_user(call: VerbCall) -> None:
    if not call.api.remove("users", call.arguments[0]):
        raise failed(f'User "{call.arguments[0]}" does not exist', NO_SUCH_USER)


def change_password(call: VerbCall) -> None:
    name = call.arguments[0]
    password = call.password(1, SOFTWARE)
    tags = ",".join(_tags(_user(call, name)))
    call.api.put("users", name, body={"password": password, "tags": tags})


def clear_password(call: VerbCall) -> None:
    name = call.arguments[0]
    user = call.api.find("users", name)
    if user is None:
        raise unknown_user(name)
    call.api.put("users", name, body={"password_hash": "", "tags": ",".join(_tags(user))})


def authenticate_user(call: VerbCall) -> Text:
    name = call.arguments[0]
    if not call.api.accepts(name, call.password(1, DATA_ERROR)):
        sentence = f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
        raise failed(sentence, DATA_ERROR)
    return Text("Success")


def set_user_tags(call: VerbCall) -> None:
    name, *tags = call.arguments
    user = _user(call, name)
    kept = {key: user[key] for key in ("password_hash", "hashing_algorithm") if user.get(key) is not None}
    call.api.put("users", name, body={**kept, "tags": ",".join(tags)})


def hash_password(call: VerbCall) -> Text:
    """The salted SHA-256 hash as in definitions."""
    salt = os.urandom(4)
    digest = hashlib.sha256(salt + call.password(0, DATA_ERROR).encode()).digest()
    return Text(base64.b64encode(salt + digest).decode())


def list_user_limits(call: VerbCall) -> Rows | Text:
    if call.own("global"):
        limits = call.api.get("user-limits")
        return Rows(["user", "limits"], [{"user": row["user"], "limits": shown_limits(row["value"])} for row in limits])
    user = call.own("user", "guest")
    if call.api.find("users", user) is None:
        raise unknown_user(user)
    rows = call.api.get("user-limits", user)
    return Text(shown_limits(rows[0]["value"] if rows else {}))


def set_user_limits(call: VerbCall) -> None:
    user, text = call.arguments
    limits = decoded(text)
    if not isinstance(limits, dict):
        raise failed("JSON decoding error. Reason: badarg")
    if call.api.find("users", user) is None:
        raise unknown_user(user)
    # the server takes one limit at a time; invalid ones go first, so that nothing is changed then
    for name, value in sorted(limits.items(), key=lambda limit: (limit[0] in LIMITS, type(limit[1]) is int)):
        try:
            call.api.put("user-limits", user, name, body={"value": value})
        except ApiRefusal as answer:
            raise failed(answer.reason.removeprefix("Validation failed\n\n").rstrip("\n")) from answer


def clear_user_limits(call: VerbCall) -> None:
    user, limit = call.arguments
    if call.api.find("users", user) is None:
        raise unknown_user(user)
    rows = call.api.get("user-limits", user)
    present = list(rows[0]["value"]) if rows else []
    for name in present:
        if limit in (name, "all"):
            call.api.remove("user-limits", user, name)


VERBS: Final = [
    Verb(
        "list_users",
        "Lists users and their tags",
        list_users,
        "[--no-table-headers] [--timeout <timeout>]",
        "list_users --formatter json",
        "Listing users ...",
    ),
    Verb(
        "add_user",
        "Adds a user without permissions; asks for the password if none is given",
        add_user,
        "<username> <password>",
        "add_user ops s3cret",
        'Adding user "{0}" ...',
        (1, 2),
        check=no_empty_name,
    ),
    Verb(
        "delete_user",
        "Deletes a user",
        delete_user,
        "<username>",
        "delete_user ops",
        'Deleting user "{0}" ...',
        (1, 1),
    ),
    Verb(
        "change_password",
        "Changes the password of a user; asks for it if none is given",
        change_password,
        "<username> <password>",
        "change_password ops n3w-s3cret",
        'Changing password for user "{0}" ...',
        (1, 2),
    ),
    Verb(
        "clear_password",
        "Removes the password of a user, who can then not log in",
        clear_password,
        "<username>",
        "clear_password ops",
        'Clearing password for user "{0}" ...',
        (1, 1),
    ),
    Verb(
        "authenticate_user",
        "Checks the password of a user",
        authenticate_user,
        "<username> <password>",
        "authenticate_user ops s3cret",
        'Authenticating user "{0}" ...',
        (1, 2),
    ),
    Verb(
        "set_user_tags",
        "Replaces the tags of a user",
        set_user_tags,
        "<username> <tag> [...]",
        "set_user_tags ops monitoring policymaker",
        lambda call: f'Setting tags for user "{call.arguments[0]}" to [{", ".join(call.arguments[1:])}] ...',
        (1, MANY),
    ),
    Verb(
        "hash_password",
        "Prints the salted SHA-256 hash of a password, as in definitions",
        hash_password,
        "<password>",
        "hash_password s3cret",
        "Hashing a password ...",
        (0, 1),
    ),
    Verb(
        "list_user_limits",
        "Lists the limits of a user, or of all users",
        list_user_limits,
        "[--user <username>] [--global]",
        "list_user_limits --user ops",
        lambda call: (
            "Listing limits for all users ..."
            if call.own("global")
            else f'Listing limits for user "{call.own("user", "guest")}" ...'
        ),
        switches={"user": str, "global": bool},
    ),
    Verb(
        "set_user_limits",
        "Limits the connections and channels of a user",
        set_user_limits,
        "<username> <definition>",
        """set_user_limits ops '{"max-connections": 10, "max-channels": 100}'""",
        'Setting user limits to "{1}" for user "{0}" ...',
        (2, 2),
    ),
    Verb(
        "clear_user_limits",
        "Clears one limit of a user, or all limits",
        clear_user_limits,
        "<username> <limit_type> | all",
        "clear_user_limits ops max-connections",
        lambda call: (
            f'Clearing all limits for user "{call.arguments[0]}" ...'
            if call.arguments[1] == "all"
            else f'Clearing "{call.arguments[1]}" limit for user "{call.arguments[0]}" ...'
        ),
        (2, 2),
    ),
]


LISTS_USAGE: Final = "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]"


def _lists(place: str, kind: str, columns: str, headed: bool = True) -> Callable[[VerbCall], VerbResult]:
    """The permissions of a user, or in a virtual host: `place` says which."""
    names = columns.split()

    def run(call: VerbCall) -> Rows:
        found = call.arguments[0] if place == "users" else call.vhost
        rows = call.api.find(place, found, kind)
        if rows is None:
            raise unknown_user(found) if place == "users" else no_such_vhost(found)
        return Rows(names, [{name: row[name] for name in names} for row in rows], headed=headed)

    return run


def _sets(kind: str, *fields: str) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> None:
        user, *values = call.arguments
        try:
            call.api.put(kind, call.vhost, user, body=dict(zip(fields, values, strict=True)))
        except ApiRefusal as answer:
            if answer.status in (400, 404):
                _require_both(call, user)
            raise

    return run


def _clears(kind: str) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> None:
        if not call.api.remove(kind, call.vhost, *call.arguments):
            _require_both(call, call.arguments[0])

    return run


def _require_both(call: VerbCall, user: str) -> None:
    """Raise the error for a missing user or virtual host; return if both exist."""
    if call.api.find("users", user) is None:
        raise failed(f"User {user} does not exist", NO_SUCH_USER)
    if call.api.find("vhosts", call.vhost) is None:
        raise failed(f"Virtual host {call.vhost} does not exist")


def _clear_topic_banner(call: VerbCall) -> str:
    place = f' on "{call.arguments[1]}"' if len(call.arguments) > 1 else ""
    return f'Clearing topic permissions{place} for user "{call.arguments[0]}" in vhost "{call.vhost}" ...'


PERMISSION_VERBS: Final = [
    Verb(
        "list_permissions",
        "Lists the permissions in a virtual host",
        _lists("vhosts", "permissions", "user configure write read"),
        LISTS_USAGE,
        "list_permissions -p /",
        'Listing permissions for vhost "{vhost}" ...',
    ),
    Verb(
        "list_user_permissions",
        "Lists the permissions of a user",
        _lists("users", "permissions", "vhost configure write read"),
        "[--no-table-headers] <username> [--timeout <timeout>]",
        "list_user_permissions ops",
        'Listing permissions for user "{0}" ...',
        (1, 1),
    ),
    Verb(
        "set_permissions",
        "Sets the patterns of names that a user may configure, write and read",
        _sets("permissions", "configure", "write", "read"),
        "[--vhost <vhost>] <username> <conf> <write> <read>",
        "set_permissions -p / ops '^ops-' '.*' '.*'",
        'Setting permissions for user "{0}" in vhost "{vhost}" ...',
        (4, 4),
    ),
    Verb(
        "clear_permissions",
        "Clears a user's permissions in a virtual host",
        _clears("permissions"),
        "[--vhost <vhost>] <username>",
        "clear_permissions -p / ops",
        'Clearing permissions for user "{0}" in vhost "{vhost}" ...',
        (1, 1),
    ),
    Verb(
        "list_topic_permissions",
        "Lists the topic permissions in a virtual host",
        _lists("vhosts", "topic-permissions", "user exchange write read"),
        LISTS_USAGE,
        "list_topic_permissions -p /",
        'Listing topic permissions for vhost "{vhost}" ...',
    ),
    Verb(
        "list_user_topic_permissions",
        "Lists the topic permissions of a user",
        _lists("users", "topic-permissions", "vhost exchange write read", headed=False),
        "[--no-table-headers] <username> [--timeout <timeout>]",
        "list_user_topic_permissions ops",
        'Listing topic permissions for user "{0}" ...',
        (1, 1),
    ),
    Verb(
        "set_topic_permissions",
        "Sets the patterns of routing keys that a user may use with a topic exchange",
        _sets("topic-permissions", "exchange", "write", "read"),
        "[--vhost <vhost>] <username> <exchange> <write> <read>",
        "set_topic_permissions ops amq.topic '^ops\\.' '.*'",
        'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
        (4, 4),
    ),
    Verb(
        "clear_topic_permissions",
        "Clears the topic permissions of a user, for all exchanges or one",
        _clears("topic-permissions"),
        "[--vhost <vhost>] <username> [<exchange>]",
        "clear_topic_permissions ops amq.topic",
        _clear_topic_banner,
        (1, 2),
    ),
]
