"""The replica sets that a node proposes in one turn go to the metadata store together.

When a node with a thousand masters is lost or stops, its mirrors propose as many replica sets at once. As transactions
of their own they would take seconds. A joint transaction succeeds or fails as a whole. If it fails because one replica
set is outdated, each of the others is proposed again by itself.

A replica set is derived from the version that was known at that moment. If the node learns of another version before
the turn ends, the proposal is dropped; the replica hears of the new version and decides again. This holds even before
the replica has been told: the transaction replaces the version that the *node* knows, so an earlier epoch would replace
a later one.

Not here: what is proposed, and what follows (`broker.replication.local_replica`), transactions
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
    """Collects the proposals of one turn."""

    def __init__(self, backend: MetadataBackend) -> None:
        self._backend: MetadataBackend = backend
        self._gathered: list[ReplicaSetProposal] = []

    def add(self, proposer: ReplicaSetProposer, replica_set: ReplicaSet) -> None:
        self._gathered.append(ReplicaSetProposal(proposer, replica_set))

    def waiting(self) -> bool:
        return len(self._gathered) > 0

    def make(self) -> None:
        """Submit the valid proposals, the last one of each replica."""
        latest = {proposal.proposer: proposal for proposal in self._gathered if proposal.is_valid()}
        self._gathered = []
        gathered = list(latest.values())
        for start in range(0, len(gathered), PROPOSALS_PER_TRANSACTION_MAX):
            self._propose(gathered[start : start + PROPOSALS_PER_TRANSACTION_MAX])

    def make_each(self, proposals: list[ReplicaSetProposal]) -> None:
        """Submit each valid proposal as a transaction of its own."""
        for proposal in proposals:
            if proposal.is_valid():
                self._propose([proposal])

    def _propose(self, proposals: list[ReplicaSetProposal]) -> None:
        transaction = MetadataTransaction()
        for proposal in proposals:
            transaction.put(proposal.basis.with_replica_set(proposal.replica_set))
        self._backend.submit(transaction, ProposalOutcome(self, proposals))


@final
class ProposalOutcome(TransactionWaiter):
    """Waits for a joint transaction."""

    def __init__(self, owner: ReplicaSetProposals, proposals: list[ReplicaSetProposal]) -> None:
        self._owner: ReplicaSetProposals = owner
        self._proposals: list[ReplicaSetProposal] = proposals

    def committed(self) -> None:
        """The replicas hear of the change like all nodes do."""

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
