"""The node itself, to read: overview, nodes, memory, feature flags, who the visitor is and how logins went; and what
was remembered of figures, to forget.

Not here: health checks (`resources.health`).
"""

from typing import Any

from warren.admin.cluster.forwarding import ALONE, at_node
from warren.admin.cluster.question import Told
from warren.admin.http.answers import Answer, json_answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import administrator, manager, monitor
from warren.admin.http.login import log_in
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.rows import answer_object, answer_rows
from warren.admin.station import Station
from warren.admin.views import nodes, overview

FEATURE_FLAGS = {
    "classic_mirrored_queue_version": "Support setting version for classic mirrored queues",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "maintenance_mode_status": "Maintenance mode status",
    "quorum_queue": "Support queues of type `quorum`",
    "stream_queue": "Support queues of type `stream`",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}
_DISABLED_FLAGS = ("classic_mirrored_queue_version", "stream_queue")
_ERLANG_TABLES = [
    f"/api/nodes/{{node}}/memory/ets{which}{unit}" for which in ("", "/{filter}") for unit in ("", "/relative")
]


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/overview": Resource(manager, {"GET": show_overview}),
        "/api/cluster-name": Resource(manager, {"GET": cluster_name}),
        "/api/nodes": Resource(monitor, {"GET": all_nodes}),
        "/api/nodes/{node}": Resource(monitor, {"GET": one_node}),
        "/api/nodes/{node}/memory": Resource(monitor, {"GET": at_node(memory)}),
        "/api/nodes/{node}/memory/relative": Resource(monitor, {"GET": at_node(relative_memory)}),
        **{path: Resource(monitor, {"GET": at_node(erlang_tables)}) for path in _ERLANG_TABLES},
        "/api/extensions": Resource(manager, {"GET": extensions}),
        "/api/feature-flags": Resource(administrator, {"GET": feature_flags}),
        "/api/whoami": Resource(manager, {"GET": whoami}),
        "/api/auth": Resource(None, {"GET": auth}),
        "/api/auth/attempts/{node}": Resource(
            monitor, {"GET": at_node(auth_attempts), "DELETE": at_node(forget_attempts)}
        ),
        "/api/auth/attempts/{node}/source": Resource(
            monitor, {"GET": at_node(auth_sources), "DELETE": at_node(forget_attempts)}
        ),
        "/api/login": Resource(None, {"POST": login}),
        "/api/reset": Resource(administrator, {"DELETE": reset_everywhere}),
        "/api/reset/{node}": Resource(administrator, {"DELETE": at_node(reset)}),
    }


async def show_overview(call: Call) -> Answer:
    station = call.station
    broker, facts, visitor = station.broker, station.facts, call.visitor
    if call.flag("disable_stats"):
        row = overview.without_stats(broker, facts, visitor)
    else:
        row = overview.overview_row(broker, facts, station.history, visitor, spans_of(call.query), station.peers)
    if call.part is not None:
        return json_answer(row)
    told = await station.peers.ask_all(call.question(ALONE))
    if told:
        row = overview.of_cluster(row, _documents(told), broker, visitor)
    return answer_object(call, row)


def _documents(told: dict[str, Told]) -> list[Any]:
    return [told[node].document for node in sorted(told) if told[node].status == 200]


async def cluster_name(call: Call) -> Answer:
    return answer_object(call, {"name": call.station.broker.cluster_name()})


async def all_nodes(call: Call) -> Answer:
    """This one's own row and those of all others, as they tell them."""
    peers = call.station.peers
    if call.flag("disable_stats"):
        return await answer_rows(call, [nodes.without_stats(name, peers) for name in peers.names()])
    if call.part is not None:
        return json_answer([_own_row(call)])
    told = await peers.ask_all(call.question(ALONE))
    rows = {row["name"]: row for found in _documents(told) for row in found} | {peers.own: _own_row(call)}
    return await answer_rows(call, [rows.get(name) or nodes.away(name, peers) for name in peers.names()], ("name",))


async def one_node(call: Call) -> Answer:
    peers = call.station.peers
    name = call.params["node"]
    if name not in peers.names():
        raise not_found()
    if name == peers.own:
        row = _own_row(call)
        if call.flag("memory"):
            row["memory"] = nodes.memory_breakdown(call.station.broker, call.station.facts)
        if call.flag("binary"):
            row["binary"] = {}
        return json_answer(row) if call.part is not None else answer_object(call, row)
    told = await peers.ask(name, call.question(ALONE))
    row = nodes.away(name, peers) if told is None or told.status != 200 else told.document
    return answer_object(call, row)


def _own_row(call: Call) -> dict[str, Any]:
    station = call.station
    return nodes.node_row(station.broker, station.facts, station.history, spans_of(call.query).node, station.peers)


async def memory(call: Call) -> Answer:
    return answer_object(call, {"memory": nodes.memory_breakdown(call.station.broker, call.station.facts)})


async def relative_memory(call: Call) -> Answer:
    return answer_object(call, {"memory": nodes.relative_memory(call.station.broker, call.station.facts)})


async def erlang_tables(call: Call) -> Answer:
    """What RabbitMQ says where none of the tables of its language are."""
    return answer_object(call, {"ets_tables_memory": "no_tables"})


async def extensions(call: Call) -> Answer:
    return json_answer([{"javascript": "dispatcher.js"}, {"javascript": "tracing.js"}])


async def feature_flags(call: Call) -> Answer:
    rows = [
        {
            "name": name,
            "desc": text,
            "doc_url": "",
            "state": "disabled" if name in _DISABLED_FLAGS else "enabled",
            "stability": "stable",
            "provided_by": "rabbit",
        }
        for name, text in FEATURE_FLAGS.items()
    ]
    return await answer_rows(call, rows, ("name",))


async def whoami(call: Call) -> Answer:
    return answer_object(call, {"name": call.visitor.name, "tags": call.visitor.tags})


async def auth(call: Call) -> Answer:
    return json_answer({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


async def auth_attempts(call: Call) -> Answer:
    accounts, figures = call.station.accounts, call.station.broker.figures
    rows = [
        _attempts("http", accounts.attempts, accounts.refused),
        _attempts("amqp091", int(figures.logins), int(figures.logins_refused)),
    ]
    return await answer_rows(call, rows)


def _attempts(protocol: str, attempts: int, failed: int) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "auth_attempts": attempts,
        "auth_attempts_failed": failed,
        "auth_attempts_succeeded": attempts - failed,
    }


async def forget_attempts(call: Call) -> Answer:
    call.station.accounts.forget_attempts()
    return no_content()


async def auth_sources(call: Call) -> Answer:
    """RabbitMQ counts by address only when told to."""
    return json_answer([])


async def reset(call: Call) -> Answer:
    """Forget what figures were; what they are is counted on."""
    call.station.history.forget()
    return no_content()


async def reset_everywhere(call: Call) -> Answer:
    if call.part is None:
        await call.station.peers.ask_all(call.question(ALONE))
    return await reset(call)


async def login(call: Call) -> Answer:
    """Find out whether a user and a password are good. Nothing is remembered of it, on either side."""
    form = await call.form()
    await log_in(call, form.get("username", ""), form.get("password", ""))
    return json_answer("ok")
