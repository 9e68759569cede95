"""Exchanges, queues and bindings that were agreed upon are made and unmade in their virtual hosts.

Not here: how (`broker.vhost`), those that were there when the node started (`broker.definitions`).
"""

from typing import final

from warren.broker.applying import Applier
from warren.broker.mirrors.wishes import mirrors_bound_queues
from warren.broker.vhost import Vhost
from warren.model.figures import NodeFigures
from warren.store.metadata import Definition, path
from warren.store.topology_definitions import (
    BINDINGS,
    EXCHANGES,
    NO_ARGUMENTS,
    QUEUES,
    TO_QUEUE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)


@final
class TopologyApplier(Applier):
    """In whatever virtual hosts there are; in those that are gone there is nothing to do."""

    def __init__(self, vhosts: dict[str, Vhost], figures: NodeFigures) -> None:
        self._vhosts: dict[str, Vhost] = vhosts
        self._figures: NodeFigures = figures

    def kinds(self) -> list[str]:
        return [QUEUES, EXCHANGES, BINDINGS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, QueueDefinition):
            self._put_queue(definition, revision)
        elif isinstance(definition, ExchangeDefinition):
            self._put_exchange(definition, revision)
        elif isinstance(definition, BindingDefinition):
            vhost = self._vhosts.get(definition.vhost)
            if vhost is not None:
                vhost.bindings.make(definition)
                self._look_at_mirrors(vhost, definition.source)

    def _put_queue(self, definition: QueueDefinition, revision: int) -> None:
        vhost = self._vhosts.get(definition.vhost)
        if vhost is None:
            return
        queue = vhost.topology.queues.get(definition.name)
        if queue is None:
            vhost.make_queue(definition, revision)
            self._figures.queues_created += 1
        elif vhost.whereabouts is not None:
            vhost.whereabouts.changed(queue, definition)

    def _put_exchange(self, definition: ExchangeDefinition, revision: int) -> None:
        vhost = self._vhosts.get(definition.vhost)
        if vhost is not None and definition.name not in vhost.topology.exchanges:
            vhost.make_exchange(definition, revision)

    def delete(self, parts: list[str]) -> None:
        vhost = self._vhosts.get(parts[1])
        if vhost is None:
            return
        if parts[0] == QUEUES:
            vhost.unmake_queue(parts[2])
        elif parts[0] == EXCHANGES:
            vhost.unmake_exchange(parts[2])
        else:
            self._delete_binding(vhost, parts)

    def _delete_binding(self, vhost: Vhost, parts: list[str]) -> None:
        if parts[6] == NO_ARGUMENTS:
            vhost.bindings.unmake(parts[2], parts[4], parts[3] == TO_QUEUE, parts[5])
        else:
            vhost.bindings.unmake_with_arguments(path(BINDINGS, parts[1:]))
        self._look_at_mirrors(vhost, parts[2])

    def _look_at_mirrors(self, vhost: Vhost, source: str) -> None:
        """Some exchanges say of the queues that are bound to them that they are to be mirrored."""
        exchange = vhost.topology.exchanges.get(source)
        if exchange is not None and mirrors_bound_queues(exchange) and vhost.whereabouts is not None:
            vhost.whereabouts.policies_changed(vhost.name)
