"""A core that is sampled on its own clock."""

import io

from tests.support.core_driver import START_MS, Core
from warren.admin.history.sampler import Sampler
from warren.admin.history.series import SAMPLES_BYTES_MAX
from warren.admin.history.stats_history import StatsHistory
from warren.admin.loop_holds import LoopHolds
from warren.admin.ports import IoStats, LinkFacts, SampleSpan
from warren.broker.model.settings import BrokerSettings
from warren.node.admin_ports import ProcessFacts
from warren.node.config.settings import NodeSettings
from warren.node.logs import Log, LogLevels
from warren.node.turn_loop import Clock

INTERVAL_MS = 5000


class SampledCore(Core):
    """Takes samples when a test says so, in the middle of slots."""

    def __init__(self, samples_bytes_max: int = SAMPLES_BYTES_MAX) -> None:
        super().__init__()
        assert START_MS % INTERVAL_MS == 0
        self.now_ms = START_MS + INTERVAL_MS // 2
        self.io = IoStats()
        clock = Clock(self._now_ns, self._now_ns)
        self.facts = ProcessFacts(NodeSettings(BrokerSettings()), clock, "none", 1000, ".", self.io)
        log = Log(LogLevels({}), stream=io.StringIO())
        self.facts.holds = {work: LoopHolds(f"{work}.slow", log) for work in ("turn", "request")}
        self.links: list[LinkFacts] = []
        self.sampler = Sampler(self.broker, self.facts, INTERVAL_MS, samples_bytes_max, lambda: self.links)
        self.history = StatsHistory(self.sampler)
        self.sampler.begin()

    def sample(self, passes: int = 1, late_ms: int = 0) -> int:
        """Run passes, the last one late; returns the number of steps."""
        steps = 0
        for number in range(passes):
            middle_ms = (self.now_ms // INTERVAL_MS + 1) * INTERVAL_MS + INTERVAL_MS // 2
            self.pass_ms(middle_ms - self.now_ms + (late_ms if number == passes - 1 else 0))
            steps += sum(1 for _ in self.sampler.take())
        return steps

    def rate(self, kind: str, key: object, name: str) -> float:
        details = self.history.rated(kind, key, {name: 0}, None)[f"{name}_details"]
        assert isinstance(details, dict)
        assert list(details) == ["rate"]
        return float(details["rate"])

    def samples(self, kind: str, key: object, name: str, span: SampleSpan) -> list[int]:
        details = self.history.rated(kind, key, {name: 0}, span)[f"{name}_details"]
        assert isinstance(details, dict)
        return [one["sample"] for one in details["samples"]]

    def _now_ns(self) -> int:
        return self.now_ms * 1_000_000
