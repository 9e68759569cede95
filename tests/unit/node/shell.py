"""The shell round a core that follows a script, on a real loop with real sockets.

Not here: the real core and real processes (`tests/node`).
"""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import uvloop

from warren.broker.model.effects import Effect
from warren.broker.model.events import Event
from warren.node.client_sockets import ClientSockets
from warren.node.listeners import ListenAddress, bind, listen
from warren.node.logs import Log, LogLevels
from warren.node.turn_loop import Clock, TurnLoop

Script = Callable[[Event], list[Effect]]
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
DEADLINE_S = 30.0


class ScriptedCore:
    """Answers each event as its script says, and remembers every turn."""

    def __init__(self, script: Script | None = None) -> None:
        self.turns: list[list[Event]] = []
        self.times_ms: list[int] = []
        self.at_once: list[Effect] = []
        self._script = script
        self._changed = asyncio.Event()

    def handle(self, events: list[Event], now_ms: int) -> list[Effect]:
        self.turns.append(events)
        self.times_ms.append(now_ms)
        self._changed.set()
        effects, self.at_once = self.at_once, []
        for event in events if self._script is not None else []:
            assert self._script is not None
            effects += self._script(event)
        return effects

    @property
    def events(self) -> list[Event]:
        return [event for turn in self.turns for event in turn]

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a turn after which the condition holds."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Shell:
    """Turns, and a listener that feeds them."""

    def __init__(self, core: ScriptedCore, clock: Clock | None = None) -> None:
        self.core = core
        self.log = io.StringIO()
        self.stops: list[int] = []
        self.turns = TurnLoop(
            core,
            asyncio.get_running_loop(),
            clock or Clock(),
            Log(LogLevels({"default": "debug"}), stream=self.log),
            self.stops.append,
        )
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def hang_up(self) -> None:
        """Close every client, and see the last of every connection."""
        for writer in self._writers:
            writer.close()
        for link in [*self.turns.links.values(), *self.turns.lingering]:
            link.abort()
        await self.core.until(lambda: not self.turns.links and not self.turns.lingering)

    def order(self, *effects: Effect) -> None:
        """Let the next turn order these, and see that there is one."""
        self.core.at_once = list(effects)
        self.turns.add(Event())


@asynccontextmanager
async def listening(core: ScriptedCore) -> AsyncIterator[Shell]:
    shell = Shell(core)
    sockets = bind(ListenAddress("127.0.0.1", 0), "")
    shell.port = sockets[0].getsockname()[1]
    servers = await listen(sockets, ClientSockets(shell.turns, count(1)).accept)
    try:
        yield shell
    finally:
        for server in servers:
            server.close()
        await shell.hang_up()


def run_on(loop_name: str, conversation: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(asyncio.wait_for(conversation, 3 * DEADLINE_S))
