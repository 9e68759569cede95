"""A topology as plain values, so that two can be compared down to their innermost tables."""

from warren.broker.routing.exchange_types import (
    ConsistentHashMatcher,
    DirectMatcher,
    FanoutMatcher,
    HeadersMatcher,
    TopicMatcher,
    TopicNode,
)
from warren.broker.routing.exchanges import Binding, Exchange, Matcher
from warren.broker.routing.topology import Topology


def structure(topology: Topology) -> object:
    """Everything in a topology except its version."""
    exchanges = {
        name: (
            exchange.type,
            _listed(exchange.outgoing),
            _listed(exchange.incoming),
            _matcher(exchange.matcher),
        )
        for name, exchange in topology.exchanges.items()
    }
    queues = {name: _listed(topology.bindings_of(queue)) for name, queue in topology.queues.items()}
    copied = {name: (_listed(hub.outgoing), _matcher(hub.matcher)) for name, hub in topology.copying.hubs.items()}
    return exchanges, queues, topology.bound_queue_count(), copied


def _listed(bindings: dict[Binding, Binding] | list[Binding]) -> list[object]:
    return [_binding(binding) for binding in bindings]


def _binding(binding: Binding) -> object:
    to_exchange = isinstance(binding.destination, Exchange)
    return binding.source.name, to_exchange, binding.destination.name, binding.routing_key, binding.arguments


def _matcher(matcher: Matcher) -> object:
    if isinstance(matcher, DirectMatcher):
        return {key: _listed(bindings) for key, bindings in matcher.by_key.items()}
    if isinstance(matcher, FanoutMatcher):
        return _listed(matcher.bindings)
    if isinstance(matcher, TopicMatcher):
        return _node(matcher.root)
    if isinstance(matcher, HeadersMatcher):
        return _listed(list(matcher.patterns))
    assert isinstance(matcher, ConsistentHashMatcher)
    return _listed(list(matcher.weighted))


def _node(node: TopicNode | None) -> object:
    if node is None:
        return None
    words = {word: _node(child) for word, child in (node.words or {}).items()}
    bindings = None if node.bindings is None else _listed(node.bindings)
    return node.is_hash, words, _node(node.star), _node(node.hash), bindings
