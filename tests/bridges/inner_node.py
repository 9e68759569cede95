"""A core with turns in this process, as a host of bridges: a node without disk, sockets and listeners."""

import asyncio
import io
from itertools import count

from warren.admin.command_queue import CommandQueue
from warren.broker.broker import Broker
from warren.broker.model.events import Command
from warren.broker.model.settings import BrokerSettings
from warren.node.bridge_host import NodeBridgeHost
from warren.node.logs import Log, LogLevels
from warren.node.turn_loop import Clock, TurnLoop


class InnerNode:
    """Runs on the loop that runs."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.core = Broker(BrokerSettings(node_name="inner@test"), seed=b"seed")
        self.log_text = io.StringIO()
        self.exit_codes: list[int] = []
        log = Log(LogLevels({}), stream=self.log_text)
        self.turns = TurnLoop(self.core, loop, Clock(), log, self.exit_codes.append)
        self._desk = CommandQueue(loop, self.turns.add)
        self.turns.attach(self._desk.orders())
        self.host = NodeBridgeHost(self.core, self.turns, self._desk, log, count(1).__next__)

    async def order(self, command: Command) -> object:
        return await self._desk.carry_out(command)
