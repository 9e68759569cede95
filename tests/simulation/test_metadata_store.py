"""The simulated store keeps the promises of the real one: whole transactions, changes in order, leased keys."""

from random import Random

import pytest

from tests.unit.broker.metadata.shared_cluster import Clock
from warren.broker.metadata.store import COMMITTED, FAILED, OUTDATED, UNKNOWN
from warren.broker.model.effects import ProposeTransaction
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    Event,
    TransactionDecided,
)
from warren.sim.cluster.metadata_store import LEASE_MS, SimulatedMetadataStore, SimulatedStoreClient


class Listener:
    """A node that records the events of the store, and applies them."""

    def __init__(self, store: SimulatedMetadataStore) -> None:
        self.heard: list[Event] = []
        self.known: dict[str, bytes] = {}
        self.revision = 0
        self.client: SimulatedStoreClient = store.client(self.hear)

    def hear(self, event: Event) -> None:
        self.heard.append(event)
        if isinstance(event, DefinitionsReplaced):
            self.known = {key: value for key, (_created, _modified, value) in event.snapshot.items()}
        elif isinstance(event, DefinitionsChanged):
            assert event.revision > self.revision
            assert [change.revision for change in event.changes] == sorted(change.revision for change in event.changes)
            for change in event.changes:
                if change.value is None:
                    del self.known[change.key]
                else:
                    self.known[change.key] = change.value
        if isinstance(event, DefinitionsReplaced | DefinitionsChanged):
            self.revision = event.revision

    def decisions(self) -> list[tuple[int, str]]:
        return [(event.ticket, event.outcome) for event in self.heard if isinstance(event, TransactionDecided)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> SimulatedMetadataStore:
    return SimulatedMetadataStore(clock, lambda: 1)


def putting(ticket: int, key: str, value: bytes, modified: int = 0) -> ProposeTransaction:
    return ProposeTransaction(ticket, [(key, modified)], [(key, value)], [], [])


def test_a_transaction_happens_once_and_the_second_like_it_is_outdated(
    clock: Clock, store: SimulatedMetadataStore
) -> None:
    one, other = Listener(store), Listener(store)
    one.client.propose(putting(1, "k", b"one"))
    other.client.propose(putting(2, "k", b"other"))
    clock.pass_ms(10)
    assert (one.decisions(), other.decisions()) == ([(1, COMMITTED)], [(2, OUTDATED)])
    assert one.known == other.known == {"k": b"one"}


def test_touching_moves_the_modification_alone(clock: Clock, store: SimulatedMetadataStore) -> None:
    store.commit(putting(1, "k", b"v"))
    created, modified, _value = store.snapshot()[1]["k"]
    touched = store.commit(ProposeTransaction(2, [("k", modified)], [], ["k"], [])).revision
    assert touched > modified
    assert store.snapshot() == (touched, {"k": (created, touched, b"v")})


def test_a_prefix_counts_from_its_revision_on(store: SimulatedMetadataStore) -> None:
    store.commit(putting(1, "q/v/one", b""))
    relying = [ProposeTransaction(2, [], [("mark", b"")], [], [(prefix, 1)]) for prefix in ("q/v/", "q/w/")]
    assert [store.commit(order).outcome for order in relying] == [OUTDATED, COMMITTED]


def test_a_node_that_was_cut_off_hears_what_it_missed(clock: Clock, store: SimulatedMetadataStore) -> None:
    listener = Listener(store)
    clock.pass_ms(10)
    listener.client.cut()
    store.commit(putting(1, "k", b"v"))
    clock.pass_ms(5_000)
    assert listener.known == {}
    listener.client.mend()
    clock.pass_ms(10)
    assert listener.known == {"k": b"v"}
    assert isinstance(listener.heard[-1], DefinitionsChanged)


def test_a_node_that_missed_compacted_changes_gets_a_snapshot(clock: Clock, store: SimulatedMetadataStore) -> None:
    listener = Listener(store)
    clock.pass_ms(10)
    listener.client.cut()
    store.commit(putting(1, "k", b"v"))
    store.forget_history()
    listener.client.mend()
    clock.pass_ms(10)
    assert isinstance(listener.heard[-1], DefinitionsReplaced)
    assert listener.known == {"k": b"v"}


def test_a_node_hears_every_second_that_it_is_current_unless_it_is_cut_off(
    clock: Clock, store: SimulatedMetadataStore
) -> None:
    listener = Listener(store)
    clock.pass_ms(3_500)
    assert len([event for event in listener.heard if isinstance(event, DefinitionsCurrent)]) == 3
    listener.client.cut()
    clock.pass_ms(5_000)
    assert len([event for event in listener.heard if isinstance(event, DefinitionsCurrent)]) == 3


def test_an_answer_that_is_lost_leaves_the_end_unknown(clock: Clock, store: SimulatedMetadataStore) -> None:
    listener = Listener(store)
    listener.client.propose(putting(1, "k", b"v"))
    clock.pass_ms(1)
    listener.client.cut()
    clock.pass_ms(3_000)
    assert listener.decisions() == [(1, UNKNOWN)]
    assert store.modified("k") > 0


def test_without_a_majority_nothing_is_changed_and_no_lease_expires(
    clock: Clock, store: SimulatedMetadataStore
) -> None:
    listener = Listener(store)
    listener.client.hold("alive", b"1")
    clock.pass_ms(10)
    store.set_majority(False)
    listener.client.propose(putting(1, "k", b"v"))
    clock.pass_ms(LEASE_MS * 3)
    assert listener.decisions() == [(1, FAILED)]
    assert list(store.snapshot()[1]) == ["alive"]
    listener.client.crash()
    store.set_majority(True)
    clock.pass_ms(LEASE_MS - 10)
    assert list(store.snapshot()[1]) == ["alive"]
    clock.pass_ms(20)
    assert list(store.snapshot()[1]) == []


def test_a_held_key_stays_while_its_holder_is_heard_of(clock: Clock, store: SimulatedMetadataStore) -> None:
    listener, watcher = Listener(store), Listener(store)
    listener.client.hold("alive", b"1")
    clock.pass_ms(LEASE_MS * 3)
    assert watcher.known == {"alive": b"1"}
    listener.client.crash()
    clock.pass_ms(LEASE_MS * 2)
    assert watcher.known == {}


def test_a_node_that_stops_lets_go_at_once(clock: Clock, store: SimulatedMetadataStore) -> None:
    listener, watcher = Listener(store), Listener(store)
    listener.client.hold("alive", b"1")
    clock.pass_ms(10)
    listener.client.stop()
    clock.pass_ms(10)
    assert watcher.known == {}


def test_a_node_that_was_cut_off_for_too_long_takes_hold_again(clock: Clock, store: SimulatedMetadataStore) -> None:
    listener, watcher = Listener(store), Listener(store)
    listener.client.hold("alive", b"1")
    clock.pass_ms(10)
    listener.client.cut()
    clock.pass_ms(LEASE_MS * 2)
    assert watcher.known == {}
    listener.client.mend()
    clock.pass_ms(LEASE_MS)
    assert watcher.known == {"alive": b"1"}


def test_a_key_held_by_a_restarted_node_is_held_by_its_later_incarnation(
    clock: Clock, store: SimulatedMetadataStore
) -> None:
    earlier, later = Listener(store), Listener(store)
    earlier.client.hold("alive", b"1")
    clock.pass_ms(10)
    earlier.client.crash()
    later.client.hold("alive", b"2")
    clock.pass_ms(10)
    assert later.known == {"alive": b"2"}
    clock.pass_ms(LEASE_MS * 2)
    assert later.known == {"alive": b"2"}


@pytest.mark.parametrize("seed", range(10))
def test_all_nodes_hear_the_same_changes_over_any_network(seed: int) -> None:
    chance = Random(seed)
    clock = Clock()
    store = SimulatedMetadataStore(clock, lambda: chance.choice((0, 1, 10, 100)))
    listeners = [Listener(store) for _ in range(3)]
    for ticket in range(1, 200):
        listener = chance.choice(listeners)
        key = f"k{chance.randrange(5)}"
        listener.client.propose(putting(ticket, key, str(ticket).encode(), store.modified(key)))
        if chance.random() < 0.1:
            chance.choice((listener.client.cut, listener.client.mend, store.forget_history))()
        clock.pass_ms(chance.choice((0, 1, 20, 500)))
    for listener in listeners:
        listener.client.mend()
    clock.pass_ms(5_000)
    wanted = {key: value for key, (_created, _modified, value) in store.snapshot()[1].items()}
    assert [listener.known for listener in listeners] == [wanted] * 3
    assert sorted(ticket for listener in listeners for ticket, _outcome in listener.decisions()) == list(range(1, 200))
