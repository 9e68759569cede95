"""Topic patterns: words, stars, hashes, and the trie."""

import time

import pytest

from tests.unit.broker.routing.factories import queues_in, reached, unbind
from warren.broker.routing.exchange_types import TopicMatcher
from warren.broker.routing.topology import Topology

PATTERNS = (
    "", "#", "*", "a.*", "a.#", "*.a", "#.a", "a..b", "*.*",
    ".", "a.", "#.#", "*.#", "#.*", "a.#.b", "#.*.#", "a.*.#.b",
)  # fmt: skip

# Recorded from RabbitMQ 3.10.8.
MATCHES = {
    "": {"", "#", "#.#"},
    "a": {"#", "*", "a.#", "#.a", "#.#", "*.#", "#.*", "#.*.#"},
    ".": {"#", "*.*", ".", "#.#", "*.#", "#.*", "#.*.#"},
    "a.": {"#", "a.*", "a.#", "*.*", "a.", "#.#", "*.#", "#.*", "#.*.#"},
    ".a": {"#", "*.a", "#.a", "*.*", "#.#", "*.#", "#.*", "#.*.#"},
    "a.b": {"#", "a.*", "a.#", "*.*", "#.#", "*.#", "#.*", "a.#.b", "#.*.#"},
    "a..b": {"#", "a.#", "a..b", "#.#", "*.#", "#.*", "a.#.b", "#.*.#", "a.*.#.b"},
    "a.b.b": {"#", "a.#", "#.#", "*.#", "#.*", "a.#.b", "#.*.#", "a.*.#.b"},
    "a.x.y.b": {"#", "a.#", "#.#", "*.#", "#.*", "a.#.b", "#.*.#", "a.*.#.b"},
    "..": {"#", "#.#", "*.#", "#.*", "#.*.#"},
    "*": {"#", "*", "#.#", "*.#", "#.*", "#.*.#"},
    "#": {"#", "*", "#.#", "*.#", "#.*", "#.*.#"},
    "a.#": {"#", "a.*", "a.#", "*.*", "#.#", "*.#", "#.*", "#.*.#"},
    "b.a": {"#", "*.a", "#.a", "*.*", "#.#", "*.#", "#.*", "#.*.#"},
}


@pytest.fixture
def patterned() -> Topology:
    """A queue named after each pattern, bound with it."""
    topology = Topology()
    for queue in queues_in(topology, *PATTERNS):
        topology.bind(topology.exchanges["amq.topic"], queue, queue.name, {})
    return topology


@pytest.mark.parametrize("key", MATCHES)
def test_a_key_reaches_the_queues_it_reaches_on_rabbitmq(patterned: Topology, key: str) -> None:
    names = reached(patterned, patterned.exchanges["amq.topic"], key)
    assert len(names) == len(set(names))
    assert set(names) == MATCHES[key]


def test_a_removed_pattern_leaves_the_others_alone(patterned: Topology) -> None:
    topic = patterned.exchanges["amq.topic"]
    unbind(patterned, topic, patterned.queues["a.#"], "a.#", {})
    assert set(reached(patterned, topic, "a.b.b")) == MATCHES["a.b.b"] - {"a.#"}


def test_removing_every_pattern_leaves_a_bare_trie(patterned: Topology) -> None:
    topic = patterned.exchanges["amq.topic"]
    for name in PATTERNS:
        unbind(patterned, topic, patterned.queues[name], name, {})
    matcher = topic.matcher
    assert isinstance(matcher, TopicMatcher)
    assert matcher.root.is_bare()


def test_many_hashes_over_a_deep_key_cost_no_more_than_words_times_nodes() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    topic = topology.exchanges["amq.topic"]
    topology.bind(topic, queue, ".".join(["#", "a"] * 60), {})
    started = time.process_time()
    assert reached(topology, topic, ".".join(["a"] * 120)) == ["queue"]
    assert reached(topology, topic, ".".join(["a"] * 119 + ["b"])) == []
    # trying each path through sixty hashes would never end
    assert time.process_time() - started < 2
