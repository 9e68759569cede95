"""Headers routing against a reading of the rules that looks at every pair of fields."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.routing.factories import a_message, queues_in, reached
from warren.broker.routing.topology import Topology
from warren.wire.field_tables import Table

names = st.sampled_from(["a", "b", "x-a", "x-b", "c"])
values = st.sampled_from([0, 1, True, False, 1.0, "", "1", b"1", None])
tables = st.dictionaries(names, values, max_size=4)
kinds = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def equal(wanted: object, present: object) -> bool:
    """Booleans equal only themselves, numbers and texts equal all of the same value."""
    if isinstance(wanted, bool) or isinstance(present, bool):
        return wanted is present
    return as_text(wanted) == as_text(present)


def as_text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def fits(kind: str | None, wanted: Table, headers: Table) -> bool:
    with_x = kind in ("all-with-x", "any-with-x")
    asked = {name for name in wanted if with_x or name[:2] != "x-"}
    met = {
        name
        for name in asked
        for header, value in headers.items()
        if header == name and (wanted[name] is None or equal(wanted[name], value))
    }
    return bool(met) if kind in ("any", "any-with-x") else met == asked


@given(kind=kinds, wanted=tables, headers=tables)
def test_a_binding_is_followed_when_the_rules_say_so(kind: str | None, wanted: Table, headers: Table) -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    exchange = topology.exchanges["amq.headers"]
    topology.bind(exchange, queue, "", wanted if kind is None else {**wanted, "x-match": kind})
    followed = reached(topology, exchange, "key", a_message(headers)) == ["queue"]
    assert followed is fits(kind, wanted, headers)
