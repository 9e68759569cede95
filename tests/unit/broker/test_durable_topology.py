"""Durable exchanges, queues and bindings after a restart: as declared, and deleted with all that belongs to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lone_vhosts import lone_vhost, lone_vhosts
from tests.unit.broker.durable_life import Life
from tests.unit.broker.queues.world import ScriptedConsumer
from warren.broker.metadata.store import MetadataChangeLog, Snapshot
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.model.turn import Turn
from warren.broker.queues.arguments import check_equivalent
from warren.broker.routing.exchanges import Binding
from warren.broker.sessions.declares import check_exchange_equivalent
from warren.broker.startup import DefinitionLoader
from warren.errors import StoreError
from warren.node.disk.sqlite_store import SqliteStore
from warren.wire.field_tables import Table, Timestamp
from warren.wire.methods import ExchangeDeclare


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "metadata.db"))
    yield store
    store.close()


@pytest.fixture
def life(store: SqliteStore) -> Life:
    return Life(store)


# -- recorded


def test_durable_queues_and_exchanges_are_kept_and_others_are_not(life: Life) -> None:
    life.queue("kept")
    life.queue("passing", durable=False)
    life.queue("owned", durable=False, owner=7)
    life.exchange("kept")
    life.exchange("passing", durable=False)
    assert life.keys() == ["exchanges/%2F/kept", "queues/%2F/kept"]


def test_a_binding_is_kept_if_both_its_ends_are(life: Life) -> None:
    kept, passing = life.queue("kept"), life.queue("passing", durable=False)
    further = life.exchange("further", durable=False)
    for source in ("amq.fanout", "further"):
        for destination in (kept, passing, further, life.vhost.topology.exchanges["amq.direct"]):
            life.bind(source, destination)
    assert life.keys() == [
        "bindings/%2F/amq.fanout/e/amq.direct//-",
        "bindings/%2F/amq.fanout/q/kept//-",
        "queues/%2F/kept",
    ]


def test_the_id_of_a_queue_or_exchange_is_the_revision_that_made_it(life: Life) -> None:
    life.queue("one")
    exchange = life.exchange("two")
    life.queue("passing", durable=False)
    life.queue("three")
    life.queue("passing too", durable=False)
    assert list(life.journal.queue_indexes) == [1, -1, 3, -2]
    assert exchange.exchange_id == 2
    assert [life.journal.queue_indexes[queue_id].durable for queue_id in (1, -1)] == [True, False]


def test_a_queue_declared_anew_is_another_one(life: Life) -> None:
    life.vhost.delete_queue(life.queue("q"))
    life.queue("q")
    assert list(life.next().loaded.queues) == [3]


def test_a_second_binding_of_the_same_kind_changes_nothing(life: Life) -> None:
    queue = life.queue("q")
    life.bind("amq.headers", queue, "", {"a": 1, "b": 2})
    revision = life.metadata.revision
    life.bind("amq.headers", queue, "", {"b": 2, "a": 1})
    assert life.metadata.revision == revision


def test_without_metadata_nothing_is_recorded_and_queues_have_no_log() -> None:
    vhost = lone_vhost(Turn())
    assert vhost.declare_queues([QueueDefinition(vhost.name, "q", True, False, False, {})])
    queue = vhost.topology.queues["q"]
    assert vhost.bind(Binding(vhost.topology.exchanges["amq.fanout"], queue, "", {}))
    assert vhost.declare_exchange(ExchangeDefinition(vhost.name, "e", "fanout", True, False, False, {}))
    assert vhost.delete_queue(queue)
    assert (vhost.topology.exchanges["e"].exchange_id, vhost.topology.queues) == (0, {})


# -- deleted


def test_a_deleted_queue_takes_its_bindings_and_the_exchange_that_lived_by_them_along(life: Life) -> None:
    queue = life.queue("q")
    middle = life.exchange("middle", auto_delete=True)
    life.bind("amq.fanout", middle)
    life.bind("middle", queue)
    life.bind("amq.direct", queue, "key")
    life.vhost.delete_queue(queue)
    assert life.keys() == []


def test_a_passing_queue_may_take_a_durable_exchange_along(life: Life) -> None:
    life.exchange("e", auto_delete=True)
    queue = life.queue("passing", durable=False)
    life.bind("e", queue)
    assert life.keys() == ["exchanges/%2F/e"]
    life.vhost.delete_queue(queue)
    assert life.keys() == []


def test_a_deleted_exchange_takes_its_bindings_both_ways_along(life: Life) -> None:
    queue, exchange = life.queue("q"), life.exchange("e")
    life.bind("e", queue)
    life.bind("amq.fanout", exchange)
    life.bind("e", exchange, "round")
    life.vhost.delete_exchange(exchange)
    assert life.keys() == ["queues/%2F/q"]


def test_an_unbound_binding_goes_and_the_last_one_takes_its_auto_delete_exchange_along(life: Life) -> None:
    queue, exchange = life.queue("q"), life.exchange("e", auto_delete=True)
    life.bind("e", queue, "", {"a": 1, "b": 2})
    life.bind("e", queue, "", {})
    life.vhost.unbind(Binding(exchange, queue, "", {"b": 2, "a": 1}))
    assert life.keys() == ["bindings/%2F/e/q/q//-", "exchanges/%2F/e", "queues/%2F/q"]
    life.vhost.unbind(Binding(exchange, queue, "", {}))
    assert life.keys() == ["queues/%2F/q"]


def test_an_unused_queue_expires(life: Life) -> None:
    life.bind("amq.fanout", life.queue("q", arguments={"x-expires": 1000}))
    assert len(life.keys()) == 2
    life.turn.now_ms += 1000
    life.turn.fire_timers()
    assert life.keys() == []


def test_an_auto_delete_queue_goes_with_its_last_consumer(life: Life) -> None:
    queue, consumer = life.queue("q", auto_delete=True), ScriptedConsumer()
    life.bind("amq.fanout", queue)
    queue.add_consumer(consumer)
    assert len(life.keys()) == 2
    queue.remove_consumer(consumer)
    assert life.keys() == []


def test_exclusive_queues_are_deleted_with_their_bindings_and_auto_delete_exchanges(life: Life) -> None:
    life.exchange("e", auto_delete=True)
    life.bind("e", life.queue("owned", durable=False, owner=7))
    assert life.keys() == ["exchanges/%2F/e"]
    life.vhost.delete_queues_of(7)
    assert life.keys() == []


# -- loaded


def test_recovered_objects_are_equivalent_to_their_declarations(life: Life) -> None:
    arguments: Table = {"x-max-length": 5, "x-dead-letter-exchange": "dlx", "x-expires": 2**33, "note": Timestamp(1)}
    life.queue("q", auto_delete=True, arguments=arguments)
    life.exchange("e", "x-delayed-message", arguments={"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"})
    topology = life.next().vhost.topology
    check_equivalent(topology.queues["q"], True, False, True, arguments)
    again = ExchangeDeclare(exchange="e", type="x-delayed-message", durable=True)
    again.arguments = {"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}
    check_exchange_equivalent(topology.exchanges["e"], "/", again)
    assert topology.exchanges["e"].alternate == "amq.fanout"


def test_loading_records_nothing_and_gives_everything_the_id_it_had(life: Life) -> None:
    life.queue("gone before")
    life.vhost.delete_queue(life.vhost.topology.queues["gone before"])
    life.bind("amq.fanout", life.queue("q", arguments={"x-max-priority": 5}))
    late = life.exchange("late", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    life.exchange("plain")
    life = life.next()
    assert life.metadata.take() == []
    assert {queue_id: queue.name for queue_id, queue in life.loaded.queues.items()} == {3: "q"}
    assert life.journal.queue_indexes[3].max_priority == 5
    assert [found[:2] for found in life.loaded.delaying_exchanges] == [("/", late.exchange_id)] == [("/", 5)]
    assert [life.vhost.topology.exchanges[name].exchange_id for name in ("late", "plain")] == [5, 6]


def test_recovered_objects_can_be_deleted(life: Life) -> None:
    life.exchange("e", auto_delete=True)
    life.bind("e", life.queue("q"), "", {"deep": [{"b": None, "a": 1.5}]})
    life = life.next()
    life.vhost.delete_queue(life.vhost.topology.queues["q"])
    assert life.keys() == []


def test_bindings_come_back_in_the_order_of_their_creation_however_the_snapshot_is_ordered(life: Life) -> None:
    queue = life.queue("q")
    for key in ("z", "a", "m"):
        life.bind("amq.topic", queue, key)
    life.end_turn()
    revision, snapshot = life.store.snapshot()
    for order in (list(snapshot), list(reversed(snapshot))):
        turn, metadata = Turn(), MetadataChangeLog(revision)
        vhost = lone_vhost(turn, metadata)
        shuffled: Snapshot = {key: snapshot[key] for key in order}
        DefinitionLoader(shuffled).load({"/": vhost}, metadata)
        bindings = vhost.topology.bindings_of(vhost.topology.queues["q"])
        assert [binding.routing_key for binding in bindings] == ["z", "a", "m"]


def test_a_binding_that_lost_an_end_is_dropped_for_good(life: Life) -> None:
    stray = [
        BindingDefinition("/", "amq.fanout", "nowhere", True, "", {}, True),
        BindingDefinition("/", "nowhere", "amq.fanout", False, "", {}, True),
    ]
    for definition in stray:
        life.metadata.put(definition.key(), definition.value())
    life.queue("q")
    life = life.next()
    assert life.loaded.dropped == [definition.key() for definition in stray]
    assert life.vhost.topology.bindings_from(life.vhost.topology.exchanges["amq.fanout"]) == []
    assert life.keys() == ["queues/%2F/q"]


def test_the_virtual_hosts_that_must_be_there_are_named(store: SqliteStore) -> None:
    metadata = MetadataChangeLog(0)
    for vhost in lone_vhosts(["red", "green"], Turn(), metadata).values():
        vhost.declare_queues([QueueDefinition(vhost.name, "q", True, False, False, {})])
        vhost.declare_exchange(ExchangeDefinition(vhost.name, "e", "fanout", True, False, False, {}))
    store.apply(metadata.take())
    definitions = DefinitionLoader(store.snapshot()[1])
    assert definitions.vhosts == ["red", "green"]
    loaded = definitions.load(lone_vhosts(definitions.vhosts, Turn(), metadata), metadata)
    assert [(queue.vhost, queue.name) for queue in loaded.queues.values()] == [("red", "q"), ("green", "q")]


def test_an_exchange_of_a_type_that_is_unknown_is_named(life: Life) -> None:
    strange = ExchangeDefinition("/", "e", "x-strange", True, False, False, {})
    life.metadata.put(strange.key(), strange.value())
    with pytest.raises(StoreError, match=r"^the metadata holds 'exchanges/%2F/e', which cannot be made: unknown"):
        life.next()


def test_a_binding_that_its_exchange_cannot_take_is_named(life: Life) -> None:
    life.queue("q")
    strange = BindingDefinition("/", "amq.headers", "q", True, "", {"x-match": "some"}, True)
    life.metadata.put(strange.key(), strange.value())
    with pytest.raises(StoreError, match=r"^the metadata holds 'bindings/%2F/amq.headers/.*', which cannot be made"):
        life.next()
