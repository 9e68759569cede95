"""Topic routing against the definition of a pattern, read off literally."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.routing.factories import queues_in, reached, unbind
from warren.broker.routing.exchange_types import TopicMatcher
from warren.broker.routing.topology import Topology

words = st.sampled_from(["", "a", "b", "*", "#"])
keys = st.lists(words, max_size=7).map(".".join)


def words_of(key: str) -> tuple[str, ...]:
    return tuple(key.split(".")) if key else ()


def matches(pattern: tuple[str, ...], key: tuple[str, ...]) -> bool:
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


@given(patterns=st.lists(keys, max_size=12, unique=True), removed=st.sets(st.integers(0, 11)), key=keys)
def test_a_key_reaches_exactly_the_bindings_whose_pattern_it_fits(
    patterns: list[str], removed: set[int], key: str
) -> None:
    topology = Topology()
    topic = topology.exchanges["amq.topic"]
    queues = queues_in(topology, *[f"{number}" for number in range(len(patterns))])
    for queue, pattern in zip(queues, patterns, strict=True):
        topology.bind(topic, queue, pattern, {})
    for number in removed & set(range(len(patterns))):
        unbind(topology, topic, queues[number], patterns[number], {})
    fitting = [
        f"{number}"
        for number, pattern in enumerate(patterns)
        if number not in removed and matches(words_of(pattern), words_of(key))
    ]
    names = reached(topology, topic, key)
    assert sorted(names) == sorted(fitting)


@given(patterns=st.lists(keys, max_size=12, unique=True))
def test_a_trie_is_bare_once_every_binding_is_removed(patterns: list[str]) -> None:
    topology = Topology()
    topic = topology.exchanges["amq.topic"]
    (queue,) = queues_in(topology, "queue")
    for pattern in patterns:
        topology.bind(topic, queue, pattern, {})
    for pattern in sorted(patterns):
        unbind(topology, topic, queue, pattern, {})
    matcher = topic.matcher
    assert isinstance(matcher, TopicMatcher)
    assert matcher.root.is_bare()
