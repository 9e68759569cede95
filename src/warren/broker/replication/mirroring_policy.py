"""What is wanted of a queue's mirrors: by the policy that counts for it, or, where no policy speaks, by its arguments
or by an exchange it is bound to that is declared with `x-mirrored`: that mirrors every queue bound to it on all nodes.

Who cannot set policies cannot order a mirror to catch up either: without one mirrors do so by themselves.

Not here: what may be said (`broker.policies.keys`), which nodes follow from it (`broker.replication.mirroring_policy`).

Which nodes are to hold a mirrored queue.

- `all`: every node of the cluster.
- `exactly` N: N nodes, the master among them. Mirrors that run stay, the eldest first; where some are lacking, others
  that run are drawn. If fewer than N run, those that do not run keep their places.
- `nodes`: those that are listed and belong to the cluster; if none of them does, the master alone.

The master always is one of them: another one must be in sync before it goes (`master_wanted`).

Not here: what a policy may say (`broker.policies.keys`), when members come and go (`broker.replication.master`).
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
    """What a policy, or the arguments of a queue, ask for."""

    def __init__(self, mode: str, count: int = 0, names: list[str] | None = None) -> None:
        self.mode: str = mode
        self.count: int = count
        self.names: list[str] = [] if names is None else names


def wanted_members(
    spec: MirrorSpec, replica_set: ReplicaSet, nodes: list[str], running: list[str], draw: int
) -> list[str]:
    """The members there should be, those that stay in their order.

    `nodes` are all that may hold queues, `running` those that are reached; `draw` is a number that chance gave.
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
    """The master there should be: with `nodes` one that is listed, as soon as one of those is in sync."""
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
    """One node's view of what policies say."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost], sync_batch_count: int) -> None:
        self._sync_batch_count: int = sync_batch_count
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def of(self, queue: QueueDefinition) -> MirrorSpec | None:
        """How a queue is to be mirrored; nothing if it is not. An exclusive one never is."""
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
        """How many must hold a message for it to be taken."""
        least = self._policy(queue).get(MIN_IN_SYNC)
        return least if isinstance(least, int) else 1

    def confirms_early(self, queue: QueueDefinition) -> bool:
        """Whether a publish is confirmed when its master holds it."""
        return self._policy(queue).get(CONFIRM) == MASTER

    def syncs_automatically(self, queue: QueueDefinition) -> bool:
        """Streams always do: what is in them does not go by and by."""
        if type_of(queue.arguments) == STREAM:
            return True
        policy = self._policy(queue)
        return MODE not in policy or policy.get(SYNC_MODE) == AUTOMATIC

    def sync_batch_count(self, queue: QueueDefinition) -> int:
        """How many messages at most a mirror that catches up is sent at once; a policy's 1 says nothing, as ever."""
        count = self._policy(queue).get(SYNC_BATCH_SIZE)
        return count if isinstance(count, int) and count > 1 else self._sync_batch_count

    def dedup_window(self, queue: QueueDefinition) -> int:
        """How many publishing ids of each publisher are remembered."""
        return window_limit(queue.arguments, self._policy(queue))

    def segment_bytes(self, queue: QueueDefinition) -> i64:
        """How large a file of a stream becomes, on each node that holds it."""
        return stream_settings_of(queue.arguments, self._policy(queue)).segment_bytes

    def promotes_unsynced(self, queue: QueueDefinition) -> bool:
        """Whether a mirror may be promoted that is not in sync, should there be no other."""
        return self._policy(queue).get(PROMOTE_ON_FAILURE) == ALWAYS

    def promotes_on_shutdown(self, queue: QueueDefinition) -> bool:
        """Whether that may be done when its master stops on purpose."""
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
