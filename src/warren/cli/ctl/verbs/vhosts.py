"""Virtual hosts: list, add, delete, limits, tracing.

The HTTP API grants the user who adds a virtual host all permissions in it. rabbitmqctl has no user and grants none.

Not here: permissions (`users`).
"""

from collections.abc import Callable
from typing import Final

from warren.cli.ctl.api import no_such_vhost
from warren.cli.ctl.verb import MANY, ColumnSource, Rows, Text, Verb, VerbCall, VerbResult, listed, same
from warren.cli.ctl.verbs.parameters import decoded, put_parameter, remove, require_vhost, shown_limits

COLUMNS: Final[dict[str, ColumnSource]] = same("cluster_state default_queue_type description name tags tracing")


def list_vhosts(call: VerbCall) -> Rows:
    rows = listed(call, "name", "vhosts", needs=("name",))
    return Rows(rows.columns, rows.items)


def add_vhost(call: VerbCall) -> None:
    """Add it; an existing one is not changed."""
    name = call.arguments[0]
    if call.api.find("vhosts", name) is not None:
        return
    given = {field: call.own(switch) for switch, field in SETTINGS.items() if call.own(switch) is not None}
    call.api.put("vhosts", name, body=given)


def delete_vhost(call: VerbCall) -> None:
    if not call.api.remove("vhosts", call.arguments[0]):
        raise no_such_vhost(call.arguments[0])


def set_vhost_tags(call: VerbCall) -> None:
    name, *tags = call.arguments
    vhost = call.api.find("vhosts", name)
    if vhost is None:
        raise no_such_vhost(name)
    call.api.put("vhosts", name, body={"description": vhost.get("description", ""), "tags": ",".join(tags)})


def list_vhost_limits(call: VerbCall) -> Rows | Text:
    if call.own("global"):
        rows = [{"vhost": row["vhost"], "limits": shown_limits(row["value"])} for row in call.api.get("vhost-limits")]
        return Rows(["vhost", "limits"], rows)
    require_vhost(call)
    rows = call.api.get("vhost-limits", call.vhost)
    if not rows:
        return Rows(["vhost", "limits"], [])
    limits = shown_limits(rows[0]["value"])
    return Text(limits, {"node": call.node, "result": "ok", "value": limits})


def set_vhost_limits(call: VerbCall) -> None:
    put_parameter(call, "vhost-limits", "limits", decoded(call.arguments[0]))


def clear_vhost_limits(call: VerbCall) -> None:
    remove(call, "parameters", "vhost-limits", call.vhost, "limits")


def _traces(on: bool) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> Text:
        vhost = call.api.find("vhosts", call.vhost)
        if vhost is None:
            raise no_such_vhost(call.vhost)
        kept = {"description": vhost.get("description", ""), "tags": ",".join(vhost.get("tags") or [])}
        call.api.put("vhosts", call.vhost, body={**kept, "tracing": on})
        words = f"Trace {'enabled' if on else 'disabled'} for vhost {call.vhost}"
        return Text(words, {"node": call.node, "result": "ok", "value": words})

    return run


SETTINGS: Final = {
    "description": "description",
    "tags": "tags",
    "default-queue-type": "default_queue_type",
}
VERBS: Final = [
    Verb(
        "list_vhosts",
        "Lists virtual hosts",
        list_vhosts,
        "[--no-table-headers] [<column> ...] [--timeout <timeout>]",
        "list_vhosts name description tracing",
        "Listing vhosts ...",
        (0, MANY),
        columns=COLUMNS,
    ),
    Verb(
        "add_vhost",
        "Adds a virtual host",
        add_vhost,
        '<vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" '
        "--default-queue-type <quorum|classic|stream>]",
        "add_vhost shop --description 'the shop' --tags production",
        'Adding vhost "{0}" ...',
        (1, 1),
        dict.fromkeys(SETTINGS, str),
    ),
    Verb(
        "delete_vhost",
        "Deletes a virtual host and everything in it",
        delete_vhost,
        "<vhost>",
        "delete_vhost shop",
        'Deleting vhost "{0}" ...',
        (1, 1),
    ),
    Verb(
        "set_vhost_tags",
        "Replaces the tags of a virtual host",
        set_vhost_tags,
        "<vhost> <tag> [...]",
        "set_vhost_tags shop production eu",
        lambda call: f'Setting tags for virtual host "{call.arguments[0]}" to [{", ".join(call.arguments[1:])}] ...',
        (1, MANY),
    ),
    Verb(
        "list_vhost_limits",
        "Lists the limits of a virtual host, or of all virtual hosts",
        list_vhost_limits,
        "[--vhost <vhost>] [--global] [--no-table-headers]",
        "list_vhost_limits --global",
        lambda call: (
            "Listing limits for all vhosts ..."
            if call.own("global")
            else f'Listing limits for vhost "{call.vhost}" ...'
        ),
        switches={"global": bool},
    ),
    Verb(
        "set_vhost_limits",
        "Limits the connections and queues of a virtual host",
        set_vhost_limits,
        "[--vhost <vhost>] <definition>",
        """set_vhost_limits -p shop '{"max-connections": 100, "max-queues": 50}'""",
        'Setting vhost limits to "{0}" for vhost "{vhost}" ...',
        (1, 1),
    ),
    Verb(
        "clear_vhost_limits",
        "Clears the limits of a virtual host",
        clear_vhost_limits,
        "[--vhost <vhost>]",
        "clear_vhost_limits -p shop",
        'Clearing vhost "{vhost}" limits ...',
    ),
    Verb(
        "trace_on",
        "Starts to copy the messages of a virtual host to amq.rabbitmq.trace",
        _traces(True),
        "[--vhost <vhost>]",
        "trace_on -p shop",
        'Starting tracing for vhost "{vhost}" ...',
    ),
    Verb(
        "trace_off",
        "Stops copying the messages of a virtual host",
        _traces(False),
        "[--vhost <vhost>]",
        "trace_off -p shop",
        'Stopping tracing for vhost "{vhost}" ...',
    ),
]
