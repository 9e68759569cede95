"""From a snapshot of the metadata back to virtual hosts with their durable exchanges, queues and bindings.

Exchanges come first, then queues, then bindings, each in the order of their creation: among bindings that is what the
order in listings and of deliveries depends on. Everything gets the id it had. Nothing is recorded by loading, for it
is what the record says; only a binding that lost an end is deleted from it, lest it come back one day with a queue of
the same name.

Not here: what becomes of the messages (`store.recovery`), what comes and goes later (`broker.topology_applier`).
"""

from typing import final

from warren.broker.vhost import Vhost
from warren.errors import ProtocolFault, StoreError
from warren.model.own_queue import OwnQueue
from warren.routing.exchange import Exchange
from warren.store.definition_kinds import decode_definition
from warren.store.metadata import Definition, Metadata, Snapshot
from warren.store.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition


@final
class Loaded:
    """What messages on disk may belong to, and the keys of the bindings that had lost an end."""

    def __init__(self) -> None:
        self.queues: dict[int, OwnQueue] = {}
        # each with its virtual host and its id
        self.delaying_exchanges: list[tuple[str, int, Exchange]] = []
        self.dropped: list[str] = []


@final
class Definitions:
    """What a snapshot says, oldest first; a `StoreError` if a part of it cannot be read."""

    def __init__(self, snapshot: Snapshot) -> None:
        # virtual hosts that something of a topology belongs to
        self.vhosts: list[str] = []
        self.others: list[Definition] = []
        self._exchanges: list[tuple[int, ExchangeDefinition]] = []
        self._queues: list[tuple[int, QueueDefinition]] = []
        self._bindings: list[BindingDefinition] = []
        for created, key in sorted([(snapshot[key][0], key) for key in snapshot]):
            self._sort_in(created, decode_definition(key, snapshot[key][1]))

    def queue_ids(self) -> list[int]:
        return [queue_id for queue_id, _definition in self._queues]

    def load(self, vhosts: dict[str, Vhost], metadata: Metadata | None) -> Loaded:
        """Make everything, in virtual hosts that are there: those that `vhosts` names, and empty so far.

        Without metadata of its own a node deletes nothing from what others share.
        """
        loaded = Loaded()
        for exchange_id, exchange in self._exchanges:
            _load_exchange(vhosts[exchange.vhost], exchange_id, exchange, loaded)
        for queue_id, queue in self._queues:
            made = vhosts[queue.vhost].make_queue(queue, queue_id)
            if made is not None and queue.durable:
                loaded.queues[queue_id] = made
        for binding in self._bindings:
            if not _load_binding(vhosts[binding.vhost], binding):
                loaded.dropped.append(binding.key())
                if metadata is not None:
                    metadata.delete(binding.key())
        return loaded

    def _sort_in(self, created: int, definition: Definition) -> None:
        if isinstance(definition, QueueDefinition):
            self._queues.append((created, definition))
            self._name_vhost(definition.vhost)
        elif isinstance(definition, ExchangeDefinition):
            self._exchanges.append((created, definition))
            self._name_vhost(definition.vhost)
        elif isinstance(definition, BindingDefinition):
            self._bindings.append(definition)
            self._name_vhost(definition.vhost)
        else:
            self.others.append(definition)

    def _name_vhost(self, name: str) -> None:
        if name not in self.vhosts:
            self.vhosts.append(name)


def _load_exchange(vhost: Vhost, exchange_id: int, definition: ExchangeDefinition, loaded: Loaded) -> None:
    try:
        exchange = vhost.make_exchange(definition, exchange_id)
    except ProtocolFault as fault:
        raise _unusable(definition.key(), fault) from fault
    if exchange.delays and exchange.exchange_id > 0:
        loaded.delaying_exchanges.append((vhost.name, exchange_id, exchange))


def _load_binding(vhost: Vhost, definition: BindingDefinition) -> bool:
    """Whether both its ends are there."""
    try:
        return vhost.bindings.make(definition)
    except ProtocolFault as fault:
        raise _unusable(definition.key(), fault) from fault


def _unusable(key: str, fault: ProtocolFault) -> StoreError:
    return StoreError(f"the metadata holds '{key}', which cannot be made: {fault.text}")
