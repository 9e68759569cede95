"""A node whose metadata transactions wait: the test decides each."""

from tests.support.slow_agreement import SlowAgreement
from tests.unit.broker.sessions.journalled import JournalledCore
from warren.broker.appliers import TopologyApplier
from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.vhost import Vhost


class DeferredCore(JournalledCore):
    """A node in a cluster, whose transactions must be committed by others."""

    def __init__(self) -> None:
        super().__init__()
        appliers = MetadataAppliers()
        self.backend = SlowAgreement(appliers)
        self.vhost = Vhost("/", self.node.turn, self.backend, owners=self.connections)
        appliers.add(TopologyApplier({"/": self.vhost}, self.node.turn.stats))
        self.node.only_vhost = self.vhost

    def grant(self, times: int = 1) -> None:
        for _ in range(times):
            self.backend.grant()
            self.turn()

    def outdate(self) -> None:
        self.backend.outdate()
        self.turn()

    def fail(self, reason: str = "no majority") -> None:
        self.backend.fail(reason)
        self.turn()
