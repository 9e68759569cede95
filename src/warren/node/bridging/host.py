"""The node as its bridges see it.

**Who runs what.** Of the nodes that the store says are alive, and that hold queues, each takes the bridges whose key
falls to it by a rendezvous hash: all nodes find the same, without a word between them, and when one goes only its own
bridges move. A node that is paused, because it is cut off from too many others, runs none.

Not here: when answers change (`node.bridging.changes`), a connection without a socket (`node.bridging.inner_link`).
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b

from warren.admin.desk import Desk
from warren.bridges.host import Federated, LocalBinding
from warren.broker.broker import Broker
from warren.broker.vhost import Vhost
from warren.client.connection import Connection
from warren.errors import Refused
from warren.model.ports import QueuePort
from warren.node.bridging.changes import Changes
from warren.node.bridging.inner_link import connect_within
from warren.node.logs import Log
from warren.node.turns import Turns
from warren.policy.commands import ClearParameter
from warren.policy.keys import FEDERATION_KEYS
from warren.policy.parameters import Parameter
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seat import Seat
from warren.routing.exchange import Exchange
from warren.wire.values import Table


class NodeHost:
    """One node; `warren.bridges.host.Host` says what for."""

    def __init__(self, core: Broker, turns: Turns, desk: Desk, log: Log, next_id: Callable[[], int]) -> None:
        self.node_name = core.settings.node_name
        self.log = log
        self._core = core
        self._turns = turns
        self._desk = desk
        self._next_id = next_id
        self._changes = Changes(core, turns, self._wants_more)

    @property
    def cluster_name(self) -> str:
        return self._core.cluster_name()

    # definitions

    def parameters(self, component: str) -> list[Parameter]:
        return [each for each in self._core.policies.parameters.values() if each.component == component]

    def global_parameter(self, name: str) -> object:
        return self._core.policies.global_parameters.get(name)

    def federated(self) -> list[Federated]:
        federating = {
            policy.vhost for policy in self._core.policies.policies.values() if _names_upstreams(policy.definition)
        }
        hosts = [vhost for name, vhost in self._core.vhosts.items() if name in federating]
        return [each for vhost in hosts for each in [*_federated_exchanges(vhost), *self._federated_queues(vhost)]]

    def bindings_of(self, vhost: str, exchange: str) -> list[LocalBinding]:
        host = self._core.vhosts.get(vhost)
        source = None if host is None else host.topology.exchanges.get(exchange)
        if source is None:
            return []
        return [
            LocalBinding(
                binding.routing_key,
                binding.arguments,
                isinstance(binding.destination, Exchange),
                binding.destination.name,
            )
            for binding in source.outgoing.values()
        ]

    async def forget(self, parameter: Parameter) -> None:
        where = (parameter.vhost, parameter.component, parameter.name)
        try:
            await self._desk.carry_out(ClearParameter(*where, as_seen=parameter))
        except Refused as refusal:
            if refusal.kind != "not_found":
                raise

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._changes.listen(callback)

    # queues

    def wants_more(self, vhost: str, queue: str) -> bool:
        wish = self._wants_more(vhost, queue)
        self._changes.asked(vhost, queue, wish)
        return wish

    def _wants_more(self, vhost: str, queue: str) -> bool:
        host = self._core.vhosts.get(vhost)
        own = None if host is None else host.own_queue(queue)
        if own is None or own.ready_count():
            return False
        # another federation consumes with a priority below everybody's: two must not play ball with a message
        return any(active and consumer.priority >= 0 and consumer.able() for consumer, active in own.consumers())

    def _federated_queues(self, vhost: Vhost) -> Iterator[Federated]:
        for queue in vhost.topology.queues.values():
            in_force = self._core.policies.for_queue(vhost.name, queue.name)
            if _names_upstreams(in_force.definition):
                yield Federated(
                    "queue",
                    vhost.name,
                    queue.name,
                    in_force.policy,
                    in_force.definition,
                    home=self._home_of(queue),
                    durable=queue.durable,
                    auto_delete=queue.auto_delete,
                    arguments=queue.arguments,
                )

    def _home_of(self, queue: QueuePort) -> str:
        return queue.node if isinstance(queue, RemoteQueue | Seat) else self.node_name

    # the cluster

    def responsible_for(self, key: str) -> bool:
        clustering = self._core.clustering
        if clustering is None:
            return True
        membership = clustering.membership
        members = membership.members
        able = [name for name in members.alive_names() if not members.is_witness(name)]
        if membership.paused or self.node_name not in able:
            return False
        return max(able, key=lambda name: (weight(key, name), name)) == self.node_name

    async def connect_here(self, vhost: str, name: str, user: str) -> Connection:
        return await connect_within(self._turns, self._next_id(), self.node_name, vhost, name, user)


def weight(key: str, node: str) -> bytes:
    """How strongly a node wants a bridge: as good as by chance, and the same wherever it is asked."""
    return blake2b(f"{node}\0{key}".encode("utf-8", "surrogateescape"), digest_size=8).digest()


def _federated_exchanges(vhost: Vhost) -> Iterator[Federated]:
    for exchange in vhost.topology.exchanges.values():
        if _names_upstreams(exchange.effective_policy):
            yield Federated(
                "exchange",
                vhost.name,
                exchange.name,
                exchange.policy,
                exchange.effective_policy,
                type=exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=exchange.arguments,
            )


def _names_upstreams(definition: Table) -> bool:
    return any(key in definition for key in FEDERATION_KEYS)
