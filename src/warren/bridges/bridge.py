"""One bridge: its definition, and one run of it.

Not here: starting runs (`bridges.supervisor`), moving messages (`bridges.transfer`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from warren.bridges.host import BridgeHost
from warren.bridges.settlement import BridgeStats, PoisonMessageGuard


class BridgeRun:
    """One run of a bridge: from its first attempt to connect until it breaks or is done."""

    def __init__(
        self,
        host: BridgeHost,
        described: Mapping[str, object],
        stats: BridgeStats,
        on_up: Callable[[Mapping[str, object]], None],
        poison_guard: PoisonMessageGuard | None = None,
    ) -> None:
        self.host = host
        # the bridge's fields in log lines
        self.described = described
        self.stats = stats
        # kept from one run to the next
        self.poison_guard = poison_guard or PoisonMessageGuard()
        self._on_up = on_up

    def is_up(self, **facts: object) -> None:
        """Both ends are connected and declared. The status pages show `facts`."""
        self._on_up(facts)


class Bridge(ABC):
    """A definition that can be run. Equal definitions mean the same bridge, so subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The bridge's name in the cluster, the same on every node."""

    @property
    def home(self) -> str:
        """The node that has to run the bridge; empty if any node may."""
        return ""

    @property
    @abstractmethod
    def reconnect_delay_s(self) -> float:
        """How long after a failure the bridge is tried again; 0 means never, as in RabbitMQ."""

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """The fields of the bridge's log lines, for example kind, vhost and name."""

    @abstractmethod
    async def live(self, run: BridgeRun) -> None:
        """Connect, declare, transfer. Returns when nothing is left to do for good; raises when the bridge broke.

        To stop it, cancel it. Either way it closes the connections it opened (`async with`).
        """

    async def retire(  # noqa: B027 - most have nothing to clear up
        self, host: BridgeHost, wanted: Collection["Bridge"]
    ) -> None:
        """Clean up at the other broker. The bridge has stopped, and no definition asks for it any more.

        Objects that one of the `wanted` bridges uses stay, even if this bridge created them.

        Not called when the bridge is changed, moves to another node, or its node stops. Failures are logged.
        """
