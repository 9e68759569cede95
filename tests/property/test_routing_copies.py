"""Copies of queues against the plainest definition of them: every copy of a queue that takes a message is given it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.routing.factories import a_copy
from tests.unit.broker.routing.structure import structure
from warren.broker.routing.exchanges import Recipients
from warren.broker.routing.topology import Topology

NAMES = ("a", "b", "c", "d", "e")
KEYS = ("", "x", "x.y")
PATTERNS = {"#": KEYS, "x": ("x",), "*.y": ("x.y",), "x.#": ("x", "x.y")}
Wish = tuple[str, str, str]  # who copies, which queue, with which pattern

wishes = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(sorted(PATTERNS))))
some_names = st.sets(st.sampled_from(NAMES))


def make(topology: Topology, name: str, wished: list[Wish]) -> None:
    sources = [{"src_name": source, "routing_key": pattern} for copy, source, pattern in wished if copy == name]
    topology.add_queue(a_copy(name, {"x-copy-from": sources} if sources else {}))


def naive(routed: set[str], wished: list[Wish], key: str, refusing: set[str]) -> set[str]:
    """Ask all queues again and again until no other one is given the message."""
    given_it = set(routed)
    while True:
        took = given_it - refusing
        further = {copy for copy, source, pattern in wished if source in took and key in PATTERNS[pattern]}
        if further <= given_it:
            return given_it
        given_it |= further


@given(wished=wishes, routed=some_names, refusing=some_names, key=st.sampled_from(KEYS), gone=some_names)
def test_each_copy_of_a_queue_that_takes_a_message_is_given_it_once(
    wished: list[Wish], routed: set[str], refusing: set[str], key: str, gone: set[str]
) -> None:
    topology = Topology()
    for name in NAMES:
        make(topology, name, wished)
    for name in gone:
        topology.remove_queue(topology.queues[name])
    fanout = topology.exchanges["amq.fanout"]
    for name in routed - gone:
        topology.bind(fanout, topology.queues[name], "", {})
    route = topology.route(fanout, key, None)
    recipients = Recipients(route.queues, route.copies)
    for queue in recipients.row:
        if queue.name not in refusing:
            recipients.taken_by(queue)
    found = [queue.name for queue in recipients.row]
    assert len(found) == len(set(found))
    assert set(found) == naive(routed - gone, [wish for wish in wished if wish[0] not in gone], key, refusing)


@given(wished=wishes, gone=some_names)
def test_copies_that_went_leave_no_trace(wished: list[Wish], gone: set[str]) -> None:
    used, fresh = Topology(), Topology()
    for name in NAMES:
        make(used, name, wished)
    for name in sorted(gone):
        used.remove_queue(used.queues[name])
    for name in NAMES:
        if name not in gone:
            make(fresh, name, wished)
    assert structure(used) == structure(fresh)
