"""Lets policies work on the queues and exchanges of one virtual host.

Whoever is made is told what is in force for it before anything else happens to it. When a policy is set or cleared,
only those are looked at again that it counted for, or that it fits; and of these only those work differently for whom
another definition is in force.

Invariant: the names and the definition on a queue or exchange are those that `Policies` finds for it.

Not here: which policy counts (`policy.policies`), how a queue takes other settings (`queue.queue`).
"""

from typing import final

from warren.errors import InvariantBroken
from warren.model.own_queue import OwnQueue
from warren.policy.policies import InForce, Policies
from warren.policy.policy import Policy
from warren.queue.queue import Queue
from warren.queue.settings import QueueSettings, settings_of
from warren.routing.exchange import Exchange
from warren.routing.topology import Topology
from warren.stream.settings import stream_settings_of
from warren.stream.stream import Stream
from warren.wire.values import Table


@final
class Governor:
    """One virtual host's."""

    def __init__(self, vhost: str, topology: Topology, policies: Policies) -> None:
        self._vhost: str = vhost
        self._topology: Topology = topology
        self._policies: Policies = policies
        # of queues without arguments: they are many, and share their settings
        self._shared: dict[InForce, QueueSettings] = {}
        for exchange in topology.exchanges.values():
            self.govern_exchange(exchange)

    def in_force_for(self, queue_name: str) -> InForce:
        return self._policies.for_queue(self._vhost, queue_name)

    def settings_for(self, arguments: Table, in_force: InForce) -> QueueSettings:
        """What a queue with these arguments works by."""
        if arguments:
            return settings_of(arguments, in_force.definition)
        shared = self._shared.get(in_force)
        if shared is None:
            shared = settings_of(arguments, in_force.definition)
            self._shared[in_force] = shared
        return shared

    def govern_exchange(self, exchange: Exchange) -> None:
        """Tell an exchange what is in force for it. The alternate exchange that its arguments name comes first."""
        in_force = self._policies.for_exchange(self._vhost, exchange.name)
        exchange.policy = in_force.policy
        exchange.effective_policy = in_force.definition
        if "alternate-exchange" not in exchange.arguments:
            alternate = in_force.definition.get("alternate-exchange")
            self._topology.set_alternate(exchange, alternate if isinstance(alternate, str) else "")

    def policy_changed(self, queues: list[OwnQueue], name: str, policy: Policy | None, operator: bool) -> None:
        """A policy of that name was set or, if there is none any more, cleared."""
        self._shared = {}
        for queue in queues:
            counted = (queue.operator_policy if operator else queue.policy) == name
            if counted or (policy is not None and policy.fits_queue(queue.name)):
                self._govern_queue(queue)
        if operator:
            return
        for exchange in self._topology.exchanges.values():
            if exchange.policy == name or (policy is not None and policy.fits_exchange(exchange.name)):
                self.govern_exchange(exchange)

    def check(self, queues: list[OwnQueue]) -> None:
        for queue in queues:
            in_force = self.in_force_for(queue.name)
            if (queue.policy, queue.operator_policy) != (in_force.policy, in_force.operator_policy):
                raise InvariantBroken(f"queue '{queue.name}' follows {queue.policy} and not {in_force.policy}")
            if queue.effective_policy != in_force.definition:
                raise InvariantBroken(f"queue '{queue.name}' follows what {queue.policy} said before")

    def _govern_queue(self, queue: OwnQueue) -> None:
        in_force = self.in_force_for(queue.name)
        differs = queue.effective_policy != in_force.definition
        tell(queue, in_force)
        if differs and isinstance(queue, Queue):
            queue.apply(self.settings_for(queue.arguments, in_force))
        elif differs and isinstance(queue, Stream):
            queue.apply(stream_settings_of(queue.arguments, in_force.definition))


def tell(queue: OwnQueue, in_force: InForce) -> None:
    """Write on a queue what is in force for it."""
    queue.policy = in_force.policy
    queue.operator_policy = in_force.operator_policy
    queue.effective_policy = in_force.definition
