"""The services that all replicas of a node share, and the port through which the parts of a replica use it.

Dependencies in this package point one way: `replica_sets` makes replicas, a replica makes its master, a master makes
backfills and links. A part that has to reach its owner does so through a port that is defined beside the part, or here
if several parts use it.

Not here: the replicas themselves (`broker.replication.replica_sets`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

from warren.broker.links.link import NodeLinks
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.turn import Turn
from warren.broker.replication.delivery_lease import Heartbeat
from warren.broker.replication.mirroring_policy import MirroringPolicies
from warren.broker.replication.peers import PeerIncarnations
from warren.broker.replication.placement import ReplicaPlacement
from warren.broker.replication.proposals import ReplicaSetProposals
from warren.broker.replication.replica_links import JoinTags, UnsentCommits
from warren.broker.replication.replica_queues import ReplicaQueues
from warren.broker.replication.sync_throttle import SyncThrottle


@trait
class ReplicaPort:
    """One replica of this node, as its master and its backfills use it."""

    @abstractmethod
    def latest_definition(self) -> QueueDefinition:
        """The definition that this replica acts on."""

    @abstractmethod
    def propose(self, replica_set: ReplicaSet) -> None:
        """Propose this replica set at the end of the turn."""

    @abstractmethod
    def note(self, level: str, name: str, facts: dict[str, object]) -> None:
        """Log an event, and add it to the replica's history."""


@trait
class BatchSource:
    """A master with changes that no batch has yet."""

    @abstractmethod
    def end_round(self) -> None:
        """Make a batch of them."""


@final
class ReplicationContext:
    """The shared services of one node."""

    def __init__(
        self,
        turn: Turn,
        links: NodeLinks,
        backend: SharedMetadataBackend,
        peers: PeerIncarnations,
        queues: ReplicaQueues,
        mirroring_policies: MirroringPolicies,
        placement: ReplicaPlacement,
        throttle: SyncThrottle,
    ) -> None:
        self.turn: Turn = turn
        self.links: NodeLinks = links
        self.backend: SharedMetadataBackend = backend
        self.peers: PeerIncarnations = peers
        self.queues: ReplicaQueues = queues
        self.mirroring_policies: MirroringPolicies = mirroring_policies
        self.placement: ReplicaPlacement = placement
        self.throttle: SyncThrottle = throttle
        self.proposals: ReplicaSetProposals = ReplicaSetProposals(backend)
        self.heartbeat: Heartbeat = Heartbeat(links, turn)
        self.unsent_commits: UnsentCommits = UnsentCommits(turn)
        self.join_tags: JoinTags = JoinTags()
        # masters with changes that no batch has yet
        self.touched: list[BatchSource] = []
        # other members may be counted than those that the heartbeat watches
        self.counted_changed: bool = False
