"""The slow router, by which the broker's is judged, follows the definitions of AMQP."""

import pytest

from warren.sim.fabric import Fabric, matches
from warren.sim.history import QueuePlan


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


def test_a_queue_gets_a_message_once_however_many_bindings_lead_to_it() -> None:
    plan = QueuePlan("one")
    fabric = Fabric({"one": plan})
    fabric.declare_exchange("events", "topic")
    fabric.bind("events", "a.*", "one")
    fabric.bind("events", "*.b", "one")
    assert fabric.route("events", "a.b") == [plan]
    fabric.unbind("events", "a.*", "one")
    fabric.unbind("events", "*.b", "one")
    assert fabric.route("events", "a.b") == []


def test_the_default_exchange_knows_declared_queues_only() -> None:
    plan = QueuePlan("one")
    fabric = Fabric({"one": plan})
    assert fabric.route("", "one") == []
    fabric.declare_queue("one")
    assert fabric.route("", "one") == [plan]
    fabric.forget()
    assert fabric.route("", "one") == []
