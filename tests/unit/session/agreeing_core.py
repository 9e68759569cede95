"""A node whose wishes wait: the test says what becomes of each."""

from tests.support.slow_agreement import SlowAgreement
from tests.unit.session.journalled import JournalledCore
from warren.broker.applying import Appliers
from warren.broker.topology_applier import TopologyApplier
from warren.broker.vhost import Vhost


class AgreeingCore(JournalledCore):
    """A node that is one of several: what it wants, others must agree to."""

    def __init__(self) -> None:
        super().__init__()
        appliers = Appliers()
        self.agreement = SlowAgreement(appliers)
        self.vhost = Vhost("/", self.node.turn, self.agreement, owners=self.connections)
        appliers.add(TopologyApplier({"/": self.vhost}, self.node.turn.figures))
        self.node.only_vhost = self.vhost

    def grant(self, times: int = 1) -> None:
        for _ in range(times):
            self.agreement.grant()
            self.turn()

    def outdate(self) -> None:
        self.agreement.outdate()
        self.turn()

    def fail(self, reason: str = "no majority") -> None:
        self.agreement.fail(reason)
        self.turn()
