"""Arguments of exchanges, queues and bindings survive an export and an import of definitions, to the byte."""

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.wire_strategies import tables
from warren.admin.definition_import import COMMANDS, definitions_in
from warren.admin.http.documents import document_fault
from warren.admin.http.responses import to_json
from warren.admin.rabbitmq_json import exact_arguments
from warren.broker.commands.requests import DeclareQueue
from warren.broker.model.settings import BrokerSettings
from warren.wire.field_tables import Table, Timestamp, encode_table


def nested(depth: int) -> Table:
    table: Table = {}
    for _ in range(depth):
        table = {"below": table}
    return table


def imported(row: dict[str, object]) -> Table:
    """The arguments that an import of this row declares a queue with."""
    [entry] = definitions_in(to_json({"queues": [row]}).decode())
    assert document_fault(entry.value) == ""
    [command] = asyncio.run(COMMANDS["queues"](BrokerSettings(), entry.value))
    assert isinstance(command, DeclareQueue)
    return command.arguments


@given(tables() | st.integers(1, 127).map(nested))
@example({"binary": b"\xff\x00"})
@example({"text": "\udcff", "\udcfe": 1})
@example({"void": None, "list": [None, {"void": None}]})
@example({"at": Timestamp(2**64 - 1)})
@example({"x-max-length": 10, "x-dead-letter-exchange": "", "x-single": True, "f": -0.0, "l": [], "t": {}})
def test_an_import_takes_what_an_export_wrote(table: Table) -> None:
    row = {"name": "q", "vhost": "/", **exact_arguments(table)}
    assert encode_table(imported(row)) == encode_table(table)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, plain, max_size=5))
def test_what_json_can_hold_is_written_as_rabbitmq_writes_it(table: Table) -> None:
    assert exact_arguments(table) == {"arguments": table}


@given(tables())
def test_other_readers_of_an_export_find_valid_json_without_null(table: Table) -> None:
    row = {"name": "q", "vhost": "/", "arguments": exact_arguments(table)["arguments"]}
    imported(row)
