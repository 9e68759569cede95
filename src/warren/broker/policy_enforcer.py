"""Applies policies to the queues and exchanges of one virtual host.

A new queue or exchange gets its effective policy first. When a policy is set or cleared, the queues and exchanges that
it applied to or matches are examined. Only those whose effective definition changed are reconfigured.

Invariant: the policy names and the definition on a queue or exchange are those that `Policies` finds for it.

Not here: which policy is effective (`broker.policies.policies`), changing a queue's settings (`broker.queues.queue`).
"""

from typing import final

from warren.broker.model.local_queue import LocalQueue
from warren.broker.policies.policies import EffectivePolicy, Policies, Policy
from warren.broker.queues.queue import Queue
from warren.broker.queues.settings import QueueSettings, queue_settings
from warren.broker.routing.exchanges import Exchange
from warren.broker.routing.topology import Topology
from warren.broker.streams.settings import stream_settings_of
from warren.broker.streams.stream import Stream
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table


@final
class PolicyEnforcer:
    """The enforcer of one virtual host."""

    def __init__(self, vhost: str, topology: Topology, policies: Policies) -> None:
        self._vhost: str = vhost
        self._topology: Topology = topology
        self._policies: Policies = policies
        # settings of queues without arguments, which are many and share them
        self._shared: dict[EffectivePolicy, QueueSettings] = {}
        for exchange in topology.exchanges.values():
            self.apply_to_exchange(exchange)

    def effective_for(self, queue_name: str) -> EffectivePolicy:
        return self._policies.for_queue(self._vhost, queue_name)

    def settings_for(self, arguments: Table, effective: EffectivePolicy) -> QueueSettings:
        """The settings of a queue with these arguments."""
        if arguments:
            return queue_settings(arguments, effective.definition)
        shared = self._shared.get(effective)
        if shared is None:
            shared = queue_settings(arguments, effective.definition)
            self._shared[effective] = shared
        return shared

    def apply_to_exchange(self, exchange: Exchange) -> None:
        """Apply the effective policy. An alternate exchange in the arguments comes before one in the policy."""
        effective = self._policies.for_exchange(self._vhost, exchange.name)
        exchange.policy = effective.policy
        exchange.effective_policy = effective.definition
        if "alternate-exchange" not in exchange.arguments:
            alternate = effective.definition.get("alternate-exchange")
            self._topology.set_alternate(exchange, alternate if isinstance(alternate, str) else "")

    def policy_changed(self, name: str, policy: Policy | None, operator: bool) -> None:
        """A policy of that name was set or, if `policy` is None, cleared. `apply_to_queues` follows."""
        self._shared = {}
        if operator:
            return
        for exchange in self._topology.exchanges.values():
            if exchange.policy == name or (policy is not None and policy.fits_exchange(exchange.name)):
                self.apply_to_exchange(exchange)

    def apply_to_queues(self, queues: list[LocalQueue], name: str, policy: Policy | None, operator: bool) -> None:
        """Apply a changed policy to these queues, which may have been deleted since."""
        for queue in queues:
            counted = (queue.operator_policy if operator else queue.policy) == name
            if counted or (policy is not None and policy.fits_queue(queue.name)):
                self._apply_to_queue(queue)

    def check(self, queues: list[LocalQueue]) -> None:
        for queue in queues:
            effective = self.effective_for(queue.name)
            if (queue.policy, queue.operator_policy) != (effective.policy, effective.operator_policy):
                raise InvariantBroken(f"queue '{queue.name}' follows {queue.policy} and not {effective.policy}")
            if queue.effective_policy != effective.definition:
                raise InvariantBroken(f"queue '{queue.name}' follows what {queue.policy} said before")

    def _apply_to_queue(self, queue: LocalQueue) -> None:
        effective = self.effective_for(queue.name)
        differs = queue.effective_policy != effective.definition
        set_effective_policy(queue, effective)
        if differs and isinstance(queue, Queue):
            queue.apply(self.settings_for(queue.arguments, effective))
        elif differs and isinstance(queue, Stream):
            queue.apply(stream_settings_of(queue.arguments, effective.definition))


def set_effective_policy(queue: LocalQueue, effective: EffectivePolicy) -> None:
    """Store the effective policy on a queue."""
    queue.policy = effective.policy
    queue.operator_policy = effective.operator_policy
    queue.effective_policy = effective.definition
