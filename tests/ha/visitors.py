"""Clients that know only the virtual address, publish and consume through all faults, and record the results.

Each is a connection of its own that recovers by itself (`warren.client.recovering`); all run in one thread, on the host
of the clients. A message counts when its confirm is there; until then it may be sent again.

Not here: the faults (`troubles`).
"""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

from tests.ha.front_door import VIRTUAL
from tests.support.namespaces import CLIENTS, NamespaceWorld
from warren.client import Message, Properties, recovering
from warren.client.transport import Layout, Outgoing, QueueLayout

URL = f"amqp://guest:guest@{VIRTUAL}/?heartbeat=4&connection_timeout=2000&connection_attempts=30&retry_delay=1"
QUEUE = "visitors"
LAYOUT = Layout(queues=(QueueLayout(QUEUE, arguments={"x-ha-mode": "all"}),))
PUBLISHERS, CONSUMERS = 3, 2
BATCH = 10
PATIENCE_S = 120.0


class Visitors:
    """All of them, from `begin` to `end`."""

    def __init__(self, world: NamespaceWorld) -> None:
        self._world = world
        self.confirmed: set[str] = set()
        self.came: set[str] = set()
        self.came_again = 0
        self.trouble: BaseException | None = None
        # of each publisher: when it was last confirmed something, and the longest it had to wait
        self._heard_s: dict[int, float] = {}
        self._waited_s: dict[int, float] = {}
        self._publishing = True
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> set[str]:
        """Stop publishing and drain the queue; the confirmed messages that did not come."""
        self._publishing = False
        deadline = time.monotonic() + PATIENCE_S
        while self.confirmed - self.came and time.monotonic() < deadline and self.trouble is None:
            time.sleep(0.1)
        self._ended.set()
        self._thread.join(PATIENCE_S)
        if self.trouble is not None:
            raise self.trouble
        return self.confirmed - self.came

    def are_served(self) -> bool:
        """Whether every publisher was confirmed something, and lately."""
        heard = list(self._heard_s.values())
        return len(heard) == PUBLISHERS and time.monotonic() - min(heard) < 1.0

    def forget_waiting(self) -> None:
        """The longest wait is counted from here on."""
        self._waited_s.clear()

    def longest_wait_s(self) -> float:
        return max(self._waited_s.values(), default=0.0)

    def _run(self) -> None:
        try:
            with self._world.inside(CLIENTS):
                asyncio.run(self._visit())
        except BaseException as error:
            self.trouble = error

    async def _visit(self) -> None:
        consuming = [asyncio.create_task(self._consume()) for _ in range(CONSUMERS)]
        publishing: list[Coroutine[Any, Any, None]] = [self._publish(number) for number in range(PUBLISHERS)]
        await asyncio.gather(*publishing)
        while not self._ended.is_set():
            await asyncio.sleep(0.05)
        for task in consuming:
            task.cancel()
        await asyncio.gather(*consuming, return_exceptions=True)

    async def _publish(self, number: int) -> None:
        async with await recovering.open(URL, name=f"publisher {number}") as transport:
            await transport.declare(LAYOUT)
            serial = 0
            while self._publishing:
                names = [f"{number}-{serial + place}" for place in range(BATCH)]
                serial += BATCH
                began = time.monotonic()
                outcomes = await transport.publish([_message(name) for name in names], timeout_s=PATIENCE_S)
                self.confirmed.update(name for name, error in zip(names, outcomes, strict=True) if error is None)
                if None in outcomes:
                    self._heard(number, began)

    def _heard(self, number: int, since: float) -> None:
        now = time.monotonic()
        self._waited_s[number] = max(self._waited_s.get(number, 0.0), now - since)
        self._heard_s[number] = now

    async def _consume(self) -> None:
        async with await recovering.open(URL, name="consumer") as transport:
            await transport.declare(LAYOUT)
            subscription = await transport.subscribe(QUEUE, prefetch=100)
            async for incoming in subscription:
                name = incoming.properties.message_id or ""
                self.came_again += name in self.came
                self.came.add(name)
                incoming.ack()


def _message(name: str) -> Outgoing:
    return Outgoing(Message(name.encode(), Properties(delivery_mode=2, message_id=name)), "", QUEUE)
