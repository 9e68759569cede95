"""Gives a new queue its home: the node it lives on, and the run of that node it ends with, if it does.

Not here: the rules (`cluster.placement`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.broker.agreement import Agreement
from warren.broker.membership import Membership
from warren.broker.names import FreshNames
from warren.broker.sharing.homes import Home, QueueHomes
from warren.cluster.placement import CLIENT_LOCAL, MIN_MASTERS, Candidate, locator_of, place
from warren.model.partitions import PARTITION_OF, partition_count
from warren.model.turn import Timed, Turn
from warren.policy.keys import MASTER_LOCATOR
from warren.policy.mirroring_keys import MODE, PARAMS
from warren.policy.policies import Policies
from warren.store.plan import AgreementWaiter, Plan
from warren.store.topology_definitions import QueueDefinition
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.broker.mirrors.rings import Rings

PARTITION_WEIGHT: Final = 1_000_000
"""The partitions of a stream are spread over the nodes, however many queues each has."""

NO_HOME: Final = "this node is a witness, and reaches no node that holds queues"


@final
class QueuePlacer:
    """Knows what counts for a queue that a client of this node declares."""

    def __init__(
        self, setting: str, membership: Membership, homes: QueueHomes, policies: Policies, names: FreshNames
    ) -> None:
        self._setting: str = setting
        self._membership: Membership = membership
        self._homes: QueueHomes = homes
        self._policies: Policies = policies
        self._names: FreshNames = names

    def home_for(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        arguments: Table,
        planned: dict[str, int] | None = None,
    ) -> Home:
        """Where the queue is to live, on no node if none can have it; so many are planned along with it, by their
        nodes."""
        node = self._membership.own
        if not exclusive:
            policy = self._policies.for_queue(vhost, name).definition
            is_partition = PARTITION_OF in arguments
            setting = MIN_MASTERS if is_partition else self._setting
            locator = locator_of(arguments.get("x-queue-master-locator"), policy.get(MASTER_LOCATOR), setting)
            draw = 0 if locator == CLIENT_LOCAL else self._names.draw()
            weight = PARTITION_WEIGHT if is_partition else 1
            node = place(locator, node, self._candidates(planned or {}, weight), _listed(policy, arguments), draw)
        return node, 0 if durable and not exclusive else self._run_of(node)

    def _candidates(self, planned: dict[str, int], weight: int) -> list[Candidate]:
        """Nodes that are reached, live, and hold queues; one that is paused does not claim to live.

        What is planned counts `weight` times.
        """
        members, own = self._membership.members, self._membership.own
        reached = [name for name in members.alive_names() if self._membership.suspicion.is_connected(name)]
        names = [name for name in reached if name != own] + [own]
        holding = [name for name in names if not members.is_witness(name)]
        return [Candidate(name, self._homes.count(name) + planned.get(name, 0) * weight) for name in holding]

    def _run_of(self, node: str) -> int:
        if node == self._membership.own:
            return self._membership.incarnation
        return self._membership.members.incarnation(node) or 0


@final
class PlacingAgreement(Agreement):
    """Gives new queues their homes, and their mirrors, before anything is proposed."""

    def __init__(self, turn: Turn, shared: Agreement, placer: QueuePlacer, rings: "Rings | None") -> None:
        self._turn: Turn = turn
        self._shared: Agreement = shared
        self._placer: QueuePlacer = placer
        self._rings: Rings | None = rings

    def at_once(self) -> bool:
        return False

    def agree(self, plan: Plan, waiter: AgreementWaiter | None) -> bool:
        planned: dict[str, int] = {}
        for change in plan.changes.values():
            new = change.definition
            if isinstance(new, QueueDefinition) and not new.node and not partition_count(new.arguments):
                home = self._placer.home_for(new.vhost, new.name, new.durable, new.exclusive, new.arguments, planned)
                if not home[0]:
                    self._turn.set_timer(self._turn.now_ms, Homeless(waiter))
                    return False
                new.node, new.incarnation = home
                planned[new.node] = planned.get(new.node, 0) + 1
                if self._rings is not None:
                    self._rings.placing.mirror_new(new)
        return self._shared.agree(plan, waiter)


@final
class Homeless(Timed):
    """A plan with a queue that no node can have; whoever planned it is told so in another turn."""

    def __init__(self, waiter: AgreementWaiter | None) -> None:
        self._waiter: AgreementWaiter | None = waiter

    def timer_fired(self) -> None:
        if self._waiter is not None:
            self._waiter.failed(NO_HOME)


def _listed(policy: Table, arguments: Table) -> list[str]:
    """The nodes on which a policy, or the queue's own arguments, want copies, if any are named."""
    mode, params = policy.get(MODE), policy.get(PARAMS)
    if MODE not in policy:
        mode, params = arguments.get("x-" + MODE), arguments.get("x-" + PARAMS)
    if mode != "nodes" or not isinstance(params, list):
        return []
    return [name for name in params if isinstance(name, str)]
