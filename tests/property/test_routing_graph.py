"""The graph of exchanges against a naive one: the same routes after any history, and nothing left behind."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.broker.routing.factories import a_message, a_queue, take_away, unbind
from tests.unit.broker.routing.structure import structure
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import Topology, TopologyRemoval

EXCHANGES = ("one", "two", "three", "four")
QUEUES = ("red", "green", "blue")
KEYS = ("", "a", "a.b")
types = st.sampled_from(["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message"])
Edge = tuple[str, str, str, str]  # source, kind of destination, destination, key


@dataclass
class NaiveExchange:
    type: str
    auto_delete: bool
    alternate: str


@dataclass
class NaiveGraph:
    """Lists, searched from end to end."""

    exchanges: dict[str, NaiveExchange] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def drop(self, dropped: list[Edge]) -> None:
        self.edges = [edge for edge in self.edges if edge not in dropped]
        for source in {edge[0] for edge in dropped} & set(self.exchanges):
            if self.exchanges[source].auto_delete and not any(edge[0] == source for edge in self.edges):
                self.delete(source)

    def delete(self, name: str) -> None:
        del self.exchanges[name]
        self.drop([edge for edge in self.edges if edge[0] == name or edge[1:3] == ("exchange", name)])

    def follows(self, edge: Edge, key: str) -> bool:
        kind = self.exchanges[edge[0]].type
        if kind in ("fanout", "headers", "x-delayed-message"):
            return True
        return edge[3] == key or (kind == "topic" and edge[3] == "#")

    def route(self, start: str, key: str, delays: bool) -> tuple[set[str], set[str]]:
        """The queues and the delaying exchanges reached; no hashing exchange is in the way."""
        reached: set[tuple[str, str]] = {("exchange", start)}
        while True:
            further = set(reached)
            for name in [name for kind, name in reached if kind == "exchange"]:
                if delays and self.exchanges[name].type == "x-delayed-message":
                    continue
                onward = {edge[1:3] for edge in self.edges if edge[0] == name and self.follows(edge, key)}
                alternate = self.exchanges[name].alternate
                if not onward and alternate in self.exchanges:
                    onward = {("exchange", alternate)}
                further |= onward
            if further == reached:
                break
            reached = further
        kept = {
            name for kind, name in reached if kind == "exchange" and self.exchanges[name].type == "x-delayed-message"
        }
        return {name for kind, name in reached if kind == "queue"}, kept if delays else set()


class GraphMachine(RuleBasedStateMachine):
    """Any history of declaring, binding, unbinding and deleting."""

    def __init__(self) -> None:
        super().__init__()
        self.topology = Topology()
        self.naive = NaiveGraph()

    @rule(
        name=st.sampled_from(EXCHANGES),
        type=types.filter(lambda name: name != "x-consistent-hash"),
        auto_delete=st.booleans(),
        alternate=st.sampled_from(["", *EXCHANGES]),
    )
    def declare(self, name: str, type: str, auto_delete: bool, alternate: str) -> None:
        if name in self.naive.exchanges:
            return
        arguments: dict[str, object] = {"x-delayed-type": "fanout"} if type == "x-delayed-message" else {}
        if alternate:
            arguments["alternate-exchange"] = alternate
        self.topology.declare_exchange(name, type, False, auto_delete, False, arguments)
        self.naive.exchanges[name] = NaiveExchange(type, auto_delete, alternate)

    @rule(name=st.sampled_from(QUEUES))
    def add_queue(self, name: str) -> None:
        if name not in self.naive.queues:
            self.topology.add_queue(a_queue(name))
            self.naive.queues.append(name)

    @precondition(lambda self: self.naive.queues and self.naive.exchanges)
    @rule(data=st.data(), key=st.sampled_from([*KEYS, "#"]))
    def bind(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(sorted(self.naive.exchanges)))
        places = [("queue", name) for name in self.naive.queues] + [("exchange", name) for name in self.naive.exchanges]
        kind, name = data.draw(st.sampled_from(sorted(places)))
        destination = self.topology.queues[name] if kind == "queue" else self.topology.exchanges[name]
        edge = (source, kind, name, key)
        added = self.topology.bind(self.topology.exchanges[source], destination, key, {})
        assert added is (edge not in self.naive.edges)
        if added:
            self.naive.edges.append(edge)

    @precondition(lambda self: self.naive.edges)
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        source, kind, name, key = edge = data.draw(st.sampled_from(sorted(self.naive.edges)))
        destination = self.topology.queues[name] if kind == "queue" else self.topology.exchanges[name]
        binding = self.topology.binding(self.topology.exchanges[source], destination, key, {})
        assert binding is not None
        removal = TopologyRemoval(self.topology)
        removal.remove_binding(binding)
        take_away(self.topology, removal)
        self.naive.drop([edge])

    @precondition(lambda self: self.naive.exchanges)
    @rule(data=st.data())
    def delete_exchange(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.naive.exchanges)))
        removal = TopologyRemoval(self.topology)
        removal.remove_exchange(self.topology.exchanges[name])
        take_away(self.topology, removal)
        self.naive.delete(name)

    @precondition(lambda self: self.naive.queues)
    @rule(data=st.data())
    def remove_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.naive.queues)))
        removal = TopologyRemoval(self.topology)
        removal.remove_queue(self.topology.queues[name])
        take_away(self.topology, removal)
        self.naive.queues.remove(name)
        self.naive.drop([edge for edge in self.naive.edges if edge[1:3] == ("queue", name)])

    @invariant()
    def the_same_exchanges_and_bindings_are_there(self) -> None:
        own = [exchange for exchange in self.topology.exchanges.values() if exchange.name in EXCHANGES]
        assert {exchange.name for exchange in own} == set(self.naive.exchanges)
        for exchange in own:
            listed = [edge_of(binding) for binding in self.topology.bindings_from(exchange)]
            assert listed == [edge for edge in self.naive.edges if edge[0] == exchange.name]

    @invariant()
    def every_route_is_the_naive_one(self) -> None:
        for name in self.naive.exchanges:
            for key in KEYS:
                for delays in (False, True):
                    message = a_message({"x-delay": 5} if delays else {})
                    route = self.topology.route(self.topology.exchanges[name], key, message)
                    queues = [queue.name for queue in route.queues]
                    assert len(queues) == len(set(queues))
                    kept = {exchange.name for exchange in route.delayed}
                    assert (set(queues), kept) == self.naive.route(name, key, delays)

    def teardown(self) -> None:
        removal = TopologyRemoval(self.topology)
        for queue in self.topology.queues.values():
            removal.remove_queue(queue)
        for name in self.naive.exchanges:
            removal.remove_exchange(self.topology.exchanges[name])
        take_away(self.topology, removal)
        assert structure(self.topology) == structure(Topology())


def edge_of(binding: Binding) -> Edge:
    kind = "exchange" if isinstance(binding.destination, Exchange) else "queue"
    return binding.source.name, kind, binding.destination.name, binding.routing_key


TestAnyHistory = GraphMachine.TestCase


@given(
    type=types,
    kept=st.lists(st.tuples(st.sampled_from(QUEUES), st.sampled_from(["1", "2", "3"])), unique=True),
    passing=st.lists(st.tuples(st.sampled_from(QUEUES), st.sampled_from(["1", "2", "5", "7"])), unique=True),
)
def test_bindings_that_were_removed_leave_no_trace(
    type: str, kept: list[tuple[str, str]], passing: list[tuple[str, str]]
) -> None:
    used, fresh = (Topology(), Topology())
    arguments: dict[str, object] = {"x-delayed-type": "topic"} if type == "x-delayed-message" else {}
    for topology in (used, fresh):
        exchange = topology.declare_exchange("main", type, False, False, False, arguments)
        for name in QUEUES:
            topology.add_queue(a_queue(name))
        for name, key in kept:
            topology.bind(exchange, topology.queues[name], key, {})
    exchange = used.exchanges["main"]
    for name, key in passing:
        used.bind(exchange, used.queues[name], key, {"passing": True})
    for name, key in reversed(passing):
        unbind(used, exchange, used.queues[name], key, {"passing": True})
    assert structure(used) == structure(fresh)
