"""The delaying exchange: which messages it delays, and their routes when they are due."""

import pytest

from tests.unit.broker.routing.factories import a_message, an_exchange, queues_in, reached
from warren.broker.routing.topology import Topology, delay_of
from warren.errors import COMMAND_INVALID, PRECONDITION_FAILED, ChannelFault, ConnectionFault


@pytest.mark.parametrize(
    ("headers", "delay_ms"),
    [
        (None, 0),
        ({}, 0),
        ({"x-delay": 1}, 1),
        ({"x-delay": 0}, 0),
        ({"x-delay": -5000}, 0),
        ({"x-delay": 2**32 - 1}, 2**32 - 1),
        ({"x-delay": 2**32}, 0),
        ({"x-delay": 2**62}, 0),
        ({"x-delay": True}, 0),
        ({"x-delay": None}, 0),
        ({"x-delay": [5]}, 0),
        ({"x-delay": "1500"}, 1500),
        ({"x-delay": "soon"}, 0),
        ({"x-delay": "9" * 5000}, 0),
        ({"x-delay": 12.9}, 12),
        ({"x-delay": 0.5}, 0),
        ({"x-delay": 1e300}, 0),
    ],
)
def test_the_delay_is_a_number_of_milliseconds_within_bounds(headers: dict[str, object] | None, delay_ms: int) -> None:
    assert delay_of(a_message(headers)) == delay_ms


def test_a_message_with_a_delay_is_kept_and_any_other_routed_by_the_inner_type() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    delaying = an_exchange(topology, "later", "x-delayed-message", x_delayed_type="topic")
    topology.bind(delaying, queue, "a.#", {})
    kept = topology.route(delaying, "a.b", a_message({"x-delay": 100}))
    assert (kept.queues, kept.delayed, kept.cacheable) == ([], [delaying], False)
    at_once = topology.route(delaying, "a.b", a_message())
    assert (at_once.queues, at_once.delayed, at_once.cacheable) == ([queue], [], False)
    assert reached(topology, delaying, "b", a_message()) == []


def test_a_due_message_follows_the_bindings_and_is_not_delayed_again() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    first = an_exchange(topology, "first", "x-delayed-message", x_delayed_type="fanout")
    second = an_exchange(topology, "second", "x-delayed-message", x_delayed_type="direct")
    topology.bind(first, second, "", {})
    topology.bind(second, queue, "key", {})
    due = topology.route_delayed(first, ["key"], a_message({"x-delay": 100}))
    assert (due.queues, due.delayed) == ([queue], [])


def test_a_delaying_exchange_behind_another_delays_only_its_own_routes() -> None:
    topology = Topology()
    now, later = queues_in(topology, "now", "later")
    fanout = topology.exchanges["amq.fanout"]
    delaying = an_exchange(topology, "delaying", "x-delayed-message", x_delayed_type="fanout")
    topology.bind(fanout, now, "", {})
    topology.bind(fanout, delaying, "", {})
    topology.bind(delaying, later, "", {})
    route = topology.route(fanout, "key", a_message({"x-delay": 100}))
    assert (route.queues, route.delayed) == ([now], [delaying])


def test_a_delayed_message_does_not_go_to_the_alternate_exchange() -> None:
    topology = Topology()
    (spare,) = queues_in(topology, "spare")
    delaying = an_exchange(
        topology, "later", "x-delayed-message", x_delayed_type="direct", alternate_exchange="amq.fanout"
    )
    topology.bind(topology.exchanges["amq.fanout"], spare, "", {})
    assert reached(topology, delaying, "key", a_message({"x-delay": 100})) == []
    assert topology.route_delayed(delaying, ["key"], a_message({"x-delay": 100})).queues == [spare]


def test_the_inner_type_checks_the_bindings() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    delaying = an_exchange(topology, "later", "x-delayed-message", x_delayed_type="headers")
    with pytest.raises(ChannelFault):
        topology.bind(delaying, queue, "", {"x-match": "some"})


@pytest.mark.parametrize("arguments", [{}, {"x_delayed_type": 5}, {"x_delayed_type": "x-delayed-message"}])
def test_a_delaying_exchange_needs_an_inner_type(arguments: dict[str, object]) -> None:
    with pytest.raises(ChannelFault) as refused:
        an_exchange(Topology(), "later", "x-delayed-message", **arguments)
    assert (refused.value.code, refused.value.text) == (
        PRECONDITION_FAILED,
        "Invalid argument, 'x-delayed-type' must be an existing exchange type",
    )


def test_an_unknown_inner_type_closes_the_connection() -> None:
    with pytest.raises(ConnectionFault) as refused:
        an_exchange(Topology(), "later", "x-delayed-message", x_delayed_type="tropic")
    assert (refused.value.code, refused.value.text) == (COMMAND_INVALID, "unknown exchange type 'tropic'")
