"""What is wanted of a queue's mirrors: by the policy that counts for it, or, where no policy speaks, by its arguments
or by an exchange it is bound to that is declared with `x-mirrored`: that mirrors every queue bound to it on all nodes.

Who cannot set policies cannot order a mirror to catch up either: without one mirrors do so by themselves.

Not here: what may be said (`policy.mirroring_keys`), which nodes follow from it (`mirroring.placement`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.mirroring.placement import ALL, EXACTLY, NODES, Wish
from warren.model.window import window_limit
from warren.policy.mirroring_keys import (
    CONFIRM,
    MIN_IN_SYNC,
    MODE,
    PARAMS,
    PROMOTE_ON_FAILURE,
    PROMOTE_ON_SHUTDOWN,
    SYNC_BATCH_SIZE,
    SYNC_MODE,
)
from warren.policy.policies import Policies
from warren.queue.arguments import type_of
from warren.queue.stream_arguments import STREAM
from warren.routing.exchange import Exchange
from warren.store.topology_definitions import QueueDefinition
from warren.stream.settings import stream_settings_of
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.broker.vhost import Vhost

ARGUMENT_PREFIX: Final = "x-"
MIRRORED: Final = "x-mirrored"
AUTOMATIC: Final = "automatic"
ALWAYS: Final = "always"
MASTER: Final = "master"


@final
class Wishes:
    """One node's view of what policies say."""

    def __init__(self, policies: Policies, vhosts: "dict[str, Vhost]", sync_batch_count: int) -> None:
        self._sync_batch_count: int = sync_batch_count
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def of(self, queue: QueueDefinition) -> Wish | None:
        """How a queue is to be mirrored; nothing if it is not. An exclusive one never is."""
        if queue.exclusive:
            return None
        policy = self._policy(queue)
        if MODE in policy:
            return _wish(policy.get(MODE), policy.get(PARAMS))
        if ARGUMENT_PREFIX + MODE in queue.arguments:
            return _wish(queue.arguments.get(ARGUMENT_PREFIX + MODE), queue.arguments.get(ARGUMENT_PREFIX + PARAMS))
        return Wish(ALL) if self._is_bound_to_mirrored(queue) else None

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

    def syncs_by_itself(self, queue: QueueDefinition) -> bool:
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

    def promotes_anybody(self, queue: QueueDefinition) -> bool:
        """Whether a mirror may be promoted that is not in sync, should there be no other."""
        return self._policy(queue).get(PROMOTE_ON_FAILURE) == ALWAYS

    def promotes_on_shutdown(self, queue: QueueDefinition) -> bool:
        """Whether that may be done when its master stops on purpose."""
        return self._policy(queue).get(PROMOTE_ON_SHUTDOWN) == ALWAYS

    def _policy(self, queue: QueueDefinition) -> Table:
        return self._policies.for_queue(queue.vhost, queue.name).definition


def mirrors_bound_queues(exchange: Exchange) -> bool:
    return exchange.arguments.get(MIRRORED) is True


def _wish(mode: object, params: object) -> Wish | None:
    if mode == ALL:
        return Wish(ALL)
    if mode == EXACTLY and isinstance(params, int):
        return Wish(EXACTLY, params)
    if mode == NODES and isinstance(params, list):
        return Wish(NODES, 0, [name for name in params if isinstance(name, str)])
    return None
