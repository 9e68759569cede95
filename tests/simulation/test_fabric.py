"""The naive router, the reference for the broker's own, follows the definitions of AMQP."""

import pytest

from warren.sim.history import QueueSpec, UndoLog
from warren.sim.routing_model import RoutingModel, matches


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#.z", "z", True),
        ("#.z", "a.b.z", True),
        ("#.z", "z.a", False),
        ("#", "", True),
        ("*", "", True),
    ],
)
def test_a_topic_matches_word_by_word(pattern: str, key: str, expected: bool) -> None:
    assert matches("topic", pattern, key) is expected


def test_a_queue_with_several_matching_bindings_gets_a_message_once() -> None:
    spec = QueueSpec("one")
    fabric = RoutingModel({"one": spec}, UndoLog())
    fabric.declare_exchange("events", "topic")
    fabric.bind("events", "a.*", "one")
    fabric.bind("events", "*.b", "one")
    assert fabric.route("events", "a.b") == [spec]
    fabric.unbind("events", "a.*", "one")
    fabric.unbind("events", "*.b", "one")
    assert fabric.route("events", "a.b") == []


def test_the_default_exchange_knows_declared_queues_only() -> None:
    spec = QueueSpec("one")
    fabric = RoutingModel({"one": spec}, UndoLog())
    assert fabric.route("", "one") == []
    fabric.declare_queue("one")
    assert fabric.route("", "one") == [spec]
    fabric.node_restarted()
    assert fabric.route("", "one") == []


def test_a_binding_lasts_if_both_its_ends_do() -> None:
    specs = {"kept": QueueSpec("kept", durable=True), "gone": QueueSpec("gone")}
    fabric = RoutingModel(specs, UndoLog())
    for exchange, durable in (("lasting", True), ("passing", False)):
        fabric.declare_exchange(exchange, "fanout", durable)
        for queue in specs:
            fabric.declare_queue(queue)
            fabric.bind(exchange, "", queue)
    fabric.node_restarted()
    assert fabric.exchanges() == {"lasting"}
    assert fabric.queues() == {"kept"}
    assert fabric.bindings() == {("lasting", "", "kept")}


def test_changes_that_were_not_written_are_gone() -> None:
    undo = UndoLog()
    fabric = RoutingModel({"one": QueueSpec("one", durable=True)}, undo)
    undo.batch_no = 1
    assert fabric.declare_exchange("events", "topic", durable=True) == 1
    assert fabric.declare_queue("one") == 1
    assert fabric.bind("events", "a", "one") == 1
    undo.batch_no = 2
    assert fabric.unbind("events", "a", "one") == 2
    assert fabric.bind("events", "b", "one") == 2
    undo.roll_back(survived_no=0, changed_no=1)
    fabric.node_restarted()
    assert fabric.bindings() == {("events", "a", "one")}
