"""The simulated cluster that a run uses: the nodes, and the rules that watch them.

Not here: nodes and links (`sim.cluster.nodes`), what clients do (`sim.cluster.workload`), faults
(`sim.cluster.faults`).
"""

from collections.abc import Callable

from warren.broker.model.settings import BrokerSettings
from warren.sim.cluster.invariants import ClusterInvariants
from warren.sim.cluster.ledger import ClientLedger
from warren.sim.cluster.nodes import MakeInterceptor, SimulatedCluster, SimulatedClusterNode
from warren.sim.report import RunTrace, ViolationLog


class ClusterWorld(SimulatedCluster):
    """A cluster with the ledger of what clients were promised, and the invariants."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        trace: RunTrace,
        checkers: ViolationLog,
        make_interceptor: MakeInterceptor | None = None,
        settings: Callable[[str], BrokerSettings] | None = None,
    ) -> None:
        super().__init__(seed, nodes, trace, checkers, make_interceptor, settings)
        self.ledger = ClientLedger(self)
        self.rules = ClusterInvariants(self, self.ledger)

    def process_ended(self, member: SimulatedClusterNode) -> None:
        super().process_ended(member)
        self.ledger.process_ended(member.name)

    def definition_changed(self, key: str, value: bytes | None) -> None:
        self.ledger.definition_changed(key, value)
        self.rules.definition_changed(key, value)

    def turned(self, member: SimulatedClusterNode) -> None:
        self.rules.turned(member)
