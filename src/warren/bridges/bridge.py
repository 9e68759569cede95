"""One bridge as it is defined, and one of its lives.

Not here: who begins its lives (`bridges.supervisor`), carrying itself (`bridges.carrying`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from warren.bridges.host import BridgeHost
from warren.bridges.settlement import BridgeStats, PoisonMessageGuard


class BridgeRun:
    """What a bridge has while it lives: from its first attempt to connect until it breaks or is done."""

    def __init__(
        self,
        host: BridgeHost,
        described: Mapping[str, object],
        stats: BridgeStats,
        on_up: Callable[[Mapping[str, object]], None],
        poison_guard: PoisonMessageGuard | None = None,
    ) -> None:
        self.host = host
        # how the bridge is known in the log
        self.described = described
        self.stats = stats
        # what lives before this one have learnt
        self.poison_guard = poison_guard or PoisonMessageGuard()
        self._on_up = on_up

    def is_up(self, **facts: object) -> None:
        """Both ends are connected and what it needs is declared; `facts` are for those who ask how it stands."""
        self._on_up(facts)


class Bridge(ABC):
    """A definition that can be lived. Two that are equal mean the same, so make it a frozen dataclass."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Its name among all bridges of the cluster, the same on every node."""

    @property
    def home(self) -> str:
        """The node that has to run it; empty if any may, and one of them is chosen."""
        return ""

    @property
    @abstractmethod
    def reconnect_delay_s(self) -> float:
        """How long after it broke it is tried again; 0 for never, as in RabbitMQ."""

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """Fields by which its lines in the log are known, for example kind, vhost and name."""

    @abstractmethod
    async def live(self, life: BridgeRun) -> None:
        """Connect, declare, carry. Returns when there is nothing left to do for ever; raises when it broke.

        When it is to end it is cancelled. Either way it closes what it has opened (`async with`).
        """

    async def retire(  # noqa: B027 - most have nothing to clear up
        self, host: BridgeHost, wanted: Collection["Bridge"]
    ) -> None:
        """It is wanted no more, by anybody, and lives no more: clear up what it has left elsewhere.

        What one of those that are `wanted` lives by is left alone, whoever has made it.

        Not called when it is merely changed, moves to another node, or its node stops. What goes wrong is told.
        """
