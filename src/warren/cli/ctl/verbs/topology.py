"""Lists of exchanges, bindings and consumers.

Not here: queues (`queues`).
"""

from typing import Any, Final

from warren.cli.ctl.terms import Atom, TermTable, pid
from warren.cli.ctl.verb import MANY, ColumnSource, Rows, Verb, VerbCall, listed, same

ARGUMENTS: Final = ColumnSource(("arguments",), lambda item: TermTable(item.get("arguments") or {}))
EXCHANGE_COLUMNS: Final[dict[str, ColumnSource]] = {
    **same("auto_delete durable internal name policy"),
    "arguments": ARGUMENTS,
    "type": ColumnSource(("type",), lambda exchange: Atom(exchange["type"])),
}
BINDING_COLUMNS: Final[dict[str, ColumnSource]] = {
    "source_name": ColumnSource(("source",), lambda binding: binding["source"]),
    "source_kind": ColumnSource((), lambda binding: Atom("exchange")),
    "destination_name": ColumnSource(("destination",), lambda binding: binding["destination"]),
    "destination_kind": ColumnSource(("destination_type",), lambda binding: Atom(binding["destination_type"])),
    **same("routing_key"),
    "arguments": ARGUMENTS,
}
CONSUMER_COLUMNS: Final[dict[str, ColumnSource]] = {
    **same("ack_required active activity_status consumer_tag prefetch_count"),
    "arguments": ARGUMENTS,
    "channel_pid": ColumnSource(("channel_details",), lambda consumer: _channel(consumer)),
    "queue_name": ColumnSource(("queue",), lambda consumer: consumer["queue"]["name"]),
}


def _channel(consumer: dict[str, Any]) -> Atom | None:
    details = consumer.get("channel_details") or {}
    return pid(details.get("node"), details.get("name"))


def list_exchanges(call: VerbCall) -> Rows:
    return listed(call, "name type", "exchanges", call.vhost)


def list_bindings(call: VerbCall) -> Rows:
    default = "source_name source_kind destination_name destination_kind routing_key arguments"
    return listed(call, default, "bindings", call.vhost, needs=("source",))


def list_consumers(call: VerbCall) -> Rows:
    default = "queue_name channel_pid consumer_tag ack_required prefetch_count active arguments"
    return listed(call, default, "consumers", call.vhost)


VERBS: Final = [
    Verb(
        "list_exchanges",
        "Lists the exchanges of a virtual host",
        list_exchanges,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        "list_exchanges name type durable",
        "Listing exchanges for vhost {vhost} ...",
        (0, MANY),
        columns=EXCHANGE_COLUMNS,
    ),
    Verb(
        "list_bindings",
        "Lists the bindings of a virtual host",
        list_bindings,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        "list_bindings source_name destination_name routing_key",
        "Listing bindings for vhost {vhost}...",
        (0, MANY),
        columns=BINDING_COLUMNS,
    ),
    Verb(
        "list_consumers",
        "Lists the consumers of a virtual host",
        list_consumers,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        "list_consumers queue_name consumer_tag",
        "Listing consumers in vhost {vhost} ...",
        (0, MANY),
        columns=CONSUMER_COLUMNS,
    ),
]
