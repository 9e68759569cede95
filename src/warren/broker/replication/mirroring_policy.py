"""Which mirrors a queue should have: by its policy, or else by its arguments or an exchange that it is bound to.

The exchange argument `x-mirrored` mirrors every queue that is bound to the exchange on all nodes. A queue that is
mirrored without a policy always gets automatic backfills: a user who cannot set policies cannot start one either.

The modes:

- `all`: every node of the cluster.
- `exactly` N: N nodes, the master among them. Running mirrors stay, the oldest member first; if some are missing, other
  running nodes are chosen at random. If fewer than N nodes run, members that do not run keep their places.
- `nodes`: the listed nodes that belong to the cluster; if there is none, the master alone.

The master is always a member: another one must be in sync before it can go (`wanted_master`).

Not here: valid policies (`broker.policies.keys`), when to compute the members (`broker.replication.placement`), changes
of the members (`broker.replication.master`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.deduplication import window_limit
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.policies.keys import (
    CONFIRM,
    MIN_IN_SYNC,
    MODE,
    PARAMS,
    PROMOTE_ON_FAILURE,
    PROMOTE_ON_SHUTDOWN,
    SYNC_BATCH_SIZE,
    SYNC_MODE,
)
from warren.broker.policies.policies import Policies
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.routing.exchanges import Exchange
from warren.broker.streams.settings import stream_settings_of
from warren.broker.vhost import Vhost
from warren.wire.field_tables import Table

ALL: Final = "all"
EXACTLY: Final = "exactly"
NODES: Final = "nodes"


@final
class MirrorSpec:
    """The mirrors that a policy or a queue's arguments ask for."""

    def __init__(self, mode: str, count: int = 0, names: list[str] | None = None) -> None:
        self.mode: str = mode
        self.count: int = count
        self.names: list[str] = [] if names is None else names


def wanted_members(
    spec: MirrorSpec, replica_set: ReplicaSet, nodes: list[str], running: list[str], draw: int
) -> list[str]:
    """The wanted members; current members that stay keep their order.

    `nodes` can hold queues; `running` are those of them that can be reached; `draw` is a random number.
    """
    master = replica_set.master
    if spec.mode == ALL:
        wanted = [name for name in replica_set.members if name in nodes or name == master]
        return [*wanted, *[name for name in nodes if name not in wanted]]
    if spec.mode == NODES:
        listed = [name for name in replica_set.members if name in spec.names and name in nodes]
        listed += [name for name in spec.names if name in nodes and name not in listed]
        return listed if master in listed else [master, *listed]
    mirrors = [name for name in replica_set.members if name != master and name in nodes]
    stay = [name for name in mirrors if name in running]
    rest = sorted([name for name in running if name != master and name not in stay and name in nodes])
    while rest and len(stay) < spec.count - 1:
        stay.append(rest.pop(draw % len(rest)))
    stay += [name for name in mirrors if name not in stay]
    chosen = [master, *stay[: spec.count - 1]]
    kept = [name for name in replica_set.members if name in chosen]
    return [*kept, *[name for name in chosen if name not in kept]]


def wanted_master(spec: MirrorSpec, replica_set: ReplicaSet, running: list[str]) -> str:
    """The wanted master: with `nodes` a listed node, as soon as one of them is in sync."""
    if spec.mode != NODES or replica_set.master in spec.names:
        return replica_set.master
    ready = [name for name in spec.names if name in replica_set.synced_names() and name in running]
    return ready[0] if ready else replica_set.master


ARGUMENT_PREFIX: Final = "x-"
MIRRORED: Final = "x-mirrored"
AUTOMATIC: Final = "automatic"
ALWAYS: Final = "always"
MASTER: Final = "master"


@final
class MirroringPolicies:
    """The settings of mirrored queues, from policies, arguments and bindings."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost], sync_batch_count: int) -> None:
        self._sync_batch_count: int = sync_batch_count
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def of(self, queue: QueueDefinition) -> MirrorSpec | None:
        """The wanted mirrors; None if the queue is not to be mirrored. An exclusive queue never is."""
        if queue.exclusive:
            return None
        policy = self._policy(queue)
        if MODE in policy:
            return _mirror_spec(policy.get(MODE), policy.get(PARAMS))
        if ARGUMENT_PREFIX + MODE in queue.arguments:
            return _mirror_spec(
                queue.arguments.get(ARGUMENT_PREFIX + MODE), queue.arguments.get(ARGUMENT_PREFIX + PARAMS)
            )
        return MirrorSpec(ALL) if self._is_bound_to_mirrored(queue) else None

    def _is_bound_to_mirrored(self, queue: QueueDefinition) -> bool:
        vhost = self._vhosts.get(queue.vhost)
        found = None if vhost is None else vhost.topology.queues.get(queue.name)
        if vhost is None or found is None:
            return False
        return any(mirrors_bound_queues(binding.source) for binding in vhost.topology.bindings_of(found))

    def min_in_sync(self, queue: QueueDefinition) -> int:
        """How many replicas must be in sync for a publish to be accepted."""
        least = self._policy(queue).get(MIN_IN_SYNC)
        return least if isinstance(least, int) else 1

    def confirms_early(self, queue: QueueDefinition) -> bool:
        """Whether a publish is confirmed when the master has it."""
        return self._policy(queue).get(CONFIRM) == MASTER

    def syncs_automatically(self, queue: QueueDefinition) -> bool:
        """Whether a joining mirror gets its backfill without a command.

        A stream's always does: its messages are not consumed, so waiting would not help.
        """
        if type_of(queue.arguments) == STREAM:
            return True
        policy = self._policy(queue)
        return MODE not in policy or policy.get(SYNC_MODE) == AUTOMATIC

    def sync_batch_count(self, queue: QueueDefinition) -> int:
        """How many messages a slice of a backfill has at most. A policy's 1 means the setting, as in RabbitMQ."""
        count = self._policy(queue).get(SYNC_BATCH_SIZE)
        return count if isinstance(count, int) and count > 1 else self._sync_batch_count

    def dedup_window(self, queue: QueueDefinition) -> int:
        """How many publishing ids of each publisher are kept."""
        return window_limit(queue.arguments, self._policy(queue))

    def segment_bytes(self, queue: QueueDefinition) -> i64:
        """The size of a stream's segment files, on every member."""
        return stream_settings_of(queue.arguments, self._policy(queue)).segment_bytes

    def promotes_unsynced(self, queue: QueueDefinition) -> bool:
        """Whether a mirror that is not in sync may be promoted if there is no other."""
        return self._policy(queue).get(PROMOTE_ON_FAILURE) == ALWAYS

    def promotes_on_shutdown(self, queue: QueueDefinition) -> bool:
        """The same when the master is stopped by an operator."""
        return self._policy(queue).get(PROMOTE_ON_SHUTDOWN) == ALWAYS

    def _policy(self, queue: QueueDefinition) -> Table:
        return self._policies.for_queue(queue.vhost, queue.name).definition


def mirrors_bound_queues(exchange: Exchange) -> bool:
    return exchange.arguments.get(MIRRORED) is True


def _mirror_spec(mode: object, params: object) -> MirrorSpec | None:
    if mode == ALL:
        return MirrorSpec(ALL)
    if mode == EXACTLY and isinstance(params, int):
        return MirrorSpec(EXACTLY, params)
    if mode == NODES and isinstance(params, list):
        return MirrorSpec(NODES, 0, [name for name in params if isinstance(name, str)])
    return None
