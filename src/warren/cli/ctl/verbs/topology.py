"""Lists of exchanges, bindings and consumers.

Not here: queues (`queues`).
"""

from typing import Any, Final

from warren.cli.ctl.terms import Atom, TermTable, pid
from warren.cli.ctl.verb import ColumnSource, list_verb, same

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


VERBS: Final = [
    list_verb(
        "list_exchanges",
        "Lists the exchanges of a virtual host",
        "exchanges/{vhost}",
        "name type",
        EXCHANGE_COLUMNS,
        "name type durable",
        "Listing exchanges for vhost {vhost} ...",
    ),
    list_verb(
        "list_bindings",
        "Lists the bindings of a virtual host",
        "bindings/{vhost}",
        "source_name source_kind destination_name destination_kind routing_key arguments",
        BINDING_COLUMNS,
        "source_name destination_name routing_key",
        "Listing bindings for vhost {vhost}...",
        needs=("source",),
    ),
    list_verb(
        "list_consumers",
        "Lists the consumers of a virtual host",
        "consumers/{vhost}",
        "queue_name channel_pid consumer_tag ack_required prefetch_count active arguments",
        CONSUMER_COLUMNS,
        "queue_name consumer_tag",
        "Listing consumers in vhost {vhost} ...",
    ),
]
