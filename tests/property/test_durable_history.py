"""After any history of a virtual host, its durable part is the same after a restart, down to the order of objects."""

from collections.abc import Iterable
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.unit.broker.durable_life import Life
from warren.broker.routing.exchanges import Binding
from warren.broker.vhost import Vhost
from warren.node.disk.sqlite_store import SqliteStore
from warren.wire.field_tables import Table

QUEUES = ("red", "green", "blue")
EXCHANGES = ("one", "two", "three")
KINDS = st.sampled_from(["direct", "topic", "headers", "x-delayed-message"])
ARGUMENTS = st.sampled_from([{}, {"a": 1}, {"b": 1.0, "a": 1}, {"a": 1, "b": 1.0}, {"c": [{"d": None}]}])


class DurableMachine(RuleBasedStateMachine):
    """Any history of declaring, binding, unbinding and deleting, with restarts in between."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.store = SqliteStore(self.directory.name + "/metadata.db")
        self.life = Life(self.store)

    @rule(name=st.sampled_from(QUEUES), durable=st.booleans(), owner=st.sampled_from([0, 0, 7]))
    def declare_queue(self, name: str, durable: bool, owner: int) -> None:
        if name not in self.life.vhost.topology.queues:
            self.life.queue(name, durable and not owner, owner=owner)

    @rule(name=st.sampled_from(EXCHANGES), kind=KINDS, durable=st.booleans(), auto_delete=st.booleans())
    def declare_exchange(self, name: str, kind: str, durable: bool, auto_delete: bool) -> None:
        arguments: Table = {"x-delayed-type": "fanout"} if kind == "x-delayed-message" else {}
        if name not in self.life.vhost.topology.exchanges:
            self.life.exchange(name, kind, durable, auto_delete, arguments)

    @rule(data=st.data(), key=st.sampled_from(["", "a.#"]), arguments=ARGUMENTS)
    def bind(self, data: st.DataObject, key: str, arguments: Table) -> None:
        topology = self.life.vhost.topology
        source = data.draw(st.sampled_from([*self._exchanges(), "amq.topic"]))
        places = [*topology.queues.values(), *[topology.exchanges[name] for name in self._exchanges()]]
        if places:
            self.life.bind(source, data.draw(st.sampled_from(places)), key, arguments)

    @precondition(lambda self: self._bindings())
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        binding = data.draw(st.sampled_from(self._bindings()))
        shuffled = {name: binding.arguments[name] for name in sorted(binding.arguments)}
        self.life.vhost.unbind(Binding(binding.source, binding.destination, binding.routing_key, shuffled))

    @precondition(lambda self: self.life.vhost.topology.queues)
    @rule(data=st.data())
    def delete_queue(self, data: st.DataObject) -> None:
        queues = self.life.vhost.topology.queues
        self.life.vhost.delete_queue(queues[data.draw(st.sampled_from(list(queues)))])

    @precondition(lambda self: self._exchanges())
    @rule(data=st.data())
    def delete_exchange(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._exchanges()))
        self.life.vhost.delete_exchange(self.life.vhost.topology.exchanges[name])

    @rule()
    def end_connection(self) -> None:
        self.life.vhost.delete_queues_of(7)

    @rule()
    def end_turn(self) -> None:
        self.life.end_turn()

    @rule()
    def restart(self) -> None:
        expected = durable_part(self.life.vhost)
        ids = {queue_id for queue_id in self.life.journal.queue_indexes if queue_id > 0}
        self.life = self.life.next()
        assert durable_part(self.life.vhost) == expected
        loaded = self.life.loaded
        delaying = {exchange_id for _, exchange_id, _ in loaded.delaying_exchanges}
        assert set(loaded.queues) | delaying == ids == set(self.life.journal.queue_indexes)
        assert self.life.metadata.take() == []

    def teardown(self) -> None:
        try:
            self.restart()
        finally:
            self.store.close()
            self.directory.cleanup()

    def _exchanges(self) -> list[str]:
        return [name for name in EXCHANGES if name in self.life.vhost.topology.exchanges]

    def _bindings(self) -> list[Binding]:
        return [binding for one in self.life.vhost.topology.exchanges.values() for binding in one.outgoing]


def durable_part(vhost: Vhost) -> object:
    """All durable objects, in the order of their creation, as plain values."""
    topology = vhost.topology
    exchanges = [
        (one.name, one.type, one.auto_delete, one.arguments, one.exchange_id, kept(one.outgoing), kept(one.incoming))
        for one in topology.exchanges.values()
        if one.durable
    ]
    queues = [(one.name, kept(topology.bindings_of(one))) for one in topology.queues.values() if one.durable]
    return exchanges, queues


def kept(bindings: Iterable[Binding]) -> list[object]:
    return [
        (one.source.name, type(one.destination), one.destination.name, one.routing_key, one.arguments)
        for one in bindings
        if one.source.durable and one.destination.durable
    ]


TestAnyHistory = DurableMachine.TestCase
