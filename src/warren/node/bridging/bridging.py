"""A node's bridges: begun when the node serves, ended before it stops.

Whoever stops a node stops its bridges first, while the broker still answers: then they leave both their ends in good
order, and nothing is carried twice because of it.

Not here: which bridges there are (`warren.bridges.kinds`).
"""

import asyncio
from collections.abc import Callable

from warren.admin.desk import Desk
from warren.bridges.desk import BridgesDesk
from warren.bridges.kinds import kinds
from warren.bridges.parameters import components
from warren.bridges.supervisor import Supervisor
from warren.broker.broker import Broker
from warren.node.bridging.host import NodeHost
from warren.node.logs import Log
from warren.node.turns import Turns

CONFIRMS_PATIENCE_S = 2.0
"""How long they wait for what is on its way; then they have the rest to leave their ends."""

STOP_PATIENCE_S = 3.0


class Bridging:
    """Of one node, in one run."""

    def __init__(self, core: Broker, turns: Turns, desk: Desk, log: Log, next_id: Callable[[], int]) -> None:
        core.parameters.components.update(components())
        self.host = NodeHost(core, turns, desk, log, next_id)
        self.supervisor = Supervisor(self.host, kinds())
        self.desk = BridgesDesk(self.host, self.supervisor)

    def start(self) -> None:
        self.supervisor.start()

    def stop_before(self, go_on: Callable[[], None]) -> None:
        """End them, and go on when they have ended, or have taken too long; at once if there are none."""
        if self.supervisor.is_idle:
            self.supervisor.cancel()
            go_on()
            return
        self._stopping = asyncio.ensure_future(self._stop(go_on))

    async def _stop(self, go_on: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(STOP_PATIENCE_S):
                await self.supervisor.stop(CONFIRMS_PATIENCE_S)
        except TimeoutError:
            self.host.log.warning("bridges.abandoned", waited_s=STOP_PATIENCE_S)
        finally:
            go_on()
