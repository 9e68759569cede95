"""What a node proposes for its rings in one turn goes to the store together.

When a node with a thousand masters is lost, or stops, its mirrors propose as many rings at once. In transactions of
their own they would take seconds. Together they come about or not; if one of them is outdated the others are proposed
again, each for itself, so that none waits for another's sake twice.

A ring is made of the version that was known at that moment. If another version comes before the turn ends, what was
proposed upon the earlier one is dropped: whoever wanted it hears of the later one, and thinks again. That holds as soon
as the node knows of it, though the part may not have been told: the store is asked to replace what the node knows, so
an earlier epoch would take the place of a later one.

Not here: what is proposed, and what comes of it (`broker.replication.local_replica`), transactions
(`broker.metadata.proposal`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import trait

from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.replica_set import ReplicaSet

PROPOSALS_PER_TRANSACTION_MAX: Final = 50


@trait
class ReplicaSetProposer:
    """The replica for whose queue a replica set is proposed."""

    @abstractmethod
    def latest_definition(self) -> QueueDefinition:
        """The definition that this replica acts on."""

    @abstractmethod
    def is_latest(self, definition: QueueDefinition) -> bool:
        """Whether this node still holds the queue, and neither node nor replica knows a later version."""

    @abstractmethod
    def proposal_failed(self, replica_set: ReplicaSet) -> None:
        """The replica set did not take effect, or is not known to have done so."""


@final
class ReplicaSetProposal:
    """Another replica set for a queue."""

    def __init__(self, proposer: ReplicaSetProposer, replica_set: ReplicaSet) -> None:
        self.proposer: ReplicaSetProposer = proposer
        self.replica_set: ReplicaSet = replica_set
        self.basis: QueueDefinition = proposer.latest_definition()

    def is_valid(self) -> bool:
        """Whether it was made from the latest version that the node knows."""
        return self.proposer.is_latest(self.basis)


@final
class ReplicaSetProposals:
    """One node's, in one turn."""

    def __init__(self, backend: MetadataBackend) -> None:
        self._backend: MetadataBackend = backend
        self._gathered: list[ReplicaSetProposal] = []

    def add(self, proposer: ReplicaSetProposer, replica_set: ReplicaSet) -> None:
        self._gathered.append(ReplicaSetProposal(proposer, replica_set))

    def waiting(self) -> bool:
        return len(self._gathered) > 0

    def make(self) -> None:
        """Propose what was gathered."""
        latest = {proposal.proposer: proposal for proposal in self._gathered if proposal.is_valid()}
        self._gathered = []
        gathered = list(latest.values())
        for start in range(0, len(gathered), PROPOSALS_PER_TRANSACTION_MAX):
            self._propose(gathered[start : start + PROPOSALS_PER_TRANSACTION_MAX])

    def make_each(self, proposals: list[ReplicaSetProposal]) -> None:
        """Propose each for itself, unless it is outdated."""
        for proposal in proposals:
            if proposal.is_valid():
                self._propose([proposal])

    def _propose(self, proposals: list[ReplicaSetProposal]) -> None:
        plan = MetadataTransaction()
        for proposal in proposals:
            plan.put(proposal.basis.with_replica_set(proposal.replica_set))
        self._backend.submit(plan, ProposalOutcome(self, proposals))


@final
class ProposalOutcome(TransactionWaiter):
    """What was proposed together."""

    def __init__(self, owner: ReplicaSetProposals, proposals: list[ReplicaSetProposal]) -> None:
        self._owner: ReplicaSetProposals = owner
        self._proposals: list[ReplicaSetProposal] = proposals

    def committed(self) -> None:
        """It is heard of as every change is."""

    def outdated(self) -> None:
        if len(self._proposals) > 1:
            self._owner.make_each(self._proposals)
        else:
            self._fail()

    def failed(self, reason: str) -> None:
        self._fail()

    def _fail(self) -> None:
        for proposal in self._proposals:
            proposal.proposer.proposal_failed(proposal.replica_set)
