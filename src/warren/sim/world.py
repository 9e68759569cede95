"""The pretend world of one node, where everything chance decides is drawn from the seed.

Not here: time (`sim.clockwork`), who lives in it (`sim.workload`), how a run goes (`sim.run`).
"""

from collections.abc import Sequence
from random import Random

from warren.model.effects import Answered
from warren.model.settings import BrokerSettings
from warren.sim.checkers import Checkers
from warren.sim.clockwork import Clockwork, Host
from warren.sim.fabric import Fabric
from warren.sim.history import History, QueuePlan
from warren.sim.node import Node
from warren.sim.operator import Operator
from warren.sim.process import HEARTBEAT_S, Meddler
from warren.sim.trace import Trace
from warren.sim.undo import UndoLog


class World(Clockwork):
    """A run's world."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        checkers: Checkers,
        meddler: Meddler | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        super().__init__(seed, trace, checkers)
        self.plans: dict[str, QueuePlan] = {}
        undo = UndoLog()
        self.history = History(undo)
        self.fabric = Fabric(self.plans, undo)
        self.operator: Operator | None = None
        self.nodes = [Node(self, "one", settings or self._settings(), meddler or Meddler())]

    def hosts(self) -> Sequence[Host]:
        return self.nodes

    def _settings(self) -> BrokerSettings:
        """Segments so small that they fill, and so little memory that messages go to disk; sometimes."""
        chance = Random(f"{self.seed}/settings")
        return BrokerSettings(
            heartbeat_s=HEARTBEAT_S,
            segment_bytes=chance.choice((2_000, 8_000, 30_000)),
            paging_ratio=chance.choice((0.0, 0.001, 0.05, 2.0)),
        )

    def command_answered(self, effect: Answered) -> None:
        if self.operator is not None:
            self.operator.command_answered(effect)
