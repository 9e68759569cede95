"""Topic routing against the definition of a pattern, read off literally."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.routing.factories import queues_in, reached, unbind
from warren.broker.routing.exchange_types import TopicMatcher
from warren.broker.routing.exchanges import Exchange, RoutedMessage
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


def bound(patterns: list[str], removed: set[int]) -> tuple[Topology, Exchange]:
    """A topic exchange with a queue for each pattern, named by its number; some bindings are removed again."""
    topology = Topology()
    topic = topology.exchanges["amq.topic"]
    queues = queues_in(topology, *[f"{number}" for number in range(len(patterns))])
    for queue, pattern in zip(queues, patterns, strict=True):
        topology.bind(topic, queue, pattern, {})
    for number in removed & set(range(len(patterns))):
        unbind(topology, topic, queues[number], patterns[number], {})
    return topology, topic


@given(patterns=st.lists(keys, max_size=12, unique=True), removed=st.sets(st.integers(0, 11)), key=keys)
def test_a_key_reaches_exactly_the_bindings_whose_pattern_it_fits(
    patterns: list[str], removed: set[int], key: str
) -> None:
    topology, topic = bound(patterns, removed)
    fitting = [
        f"{number}"
        for number, pattern in enumerate(patterns)
        if number not in removed and matches(words_of(pattern), words_of(key))
    ]
    names = reached(topology, topic, key)
    assert sorted(names) == sorted(fitting)


# many wildcards, few words: nearly every part of every pattern matches nearly every part of a key
wide_keys = st.lists(st.sampled_from(["a", "b", "*", "#", "#"]), max_size=14).map(".".join)


@given(
    patterns=st.lists(wide_keys, max_size=12, unique=True),
    removed=st.sets(st.integers(0, 11)),
    routing_keys=st.lists(st.lists(st.sampled_from("ab"), max_size=14).map(".".join), min_size=1, max_size=4),
    steps_max=st.integers(1, 60),
)
def test_keys_reach_the_bindings_of_wide_patterns_whether_in_slices_or_at_once(
    patterns: list[str], removed: set[int], routing_keys: list[str], steps_max: int
) -> None:
    topology, topic = bound(patterns, removed)
    fitting = [
        f"{number}"
        for number, pattern in enumerate(patterns)
        if number not in removed and any(fits(words_of(pattern), words_of(key)) for key in routing_keys)
    ]
    subject = RoutedMessage(routing_keys, None)
    subject.unfinished = True
    while subject.unfinished:
        subject.steps_max = subject.steps + steps_max
        route = topology.route_subject(topic, subject)
    assert sorted(queue.name for queue in route.queues) == sorted(fitting)


def fits(pattern: tuple[str, ...], key: tuple[str, ...]) -> bool:
    """The same as `matches`, for patterns with many `#`: the numbers of words of the key that the pattern may match."""
    counts = {0}
    for word in pattern:
        if word == "#":
            counts = set(range(min(counts, default=len(key) + 1), len(key) + 1))
        else:
            counts = {count + 1 for count in counts if count < len(key) and word in ("*", key[count])}
    return len(key) in counts


@given(pattern=keys, key=keys)
def test_both_ways_to_read_a_pattern_agree(pattern: str, key: str) -> None:
    assert fits(words_of(pattern), words_of(key)) is matches(words_of(pattern), words_of(key))


@given(patterns=st.lists(keys | wide_keys, max_size=12, unique=True))
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
    assert not matcher.wide.patterns
