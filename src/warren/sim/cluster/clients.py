"""Clients of a cluster: what all do, on whichever node they reach; and those that publish, and remember the answers.

A node of a cluster may close a channel because another node is down, or because the nodes could not agree; a client
then waits a little and begins anew. A node does not close channels for anything else.

Not here: consumers (`sim.cluster.consumers`), those who make and unmake queues (`sim.cluster.errands`), what was
promised (`sim.cluster.promises`).
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.sim.client import Client
from warren.sim.cluster.promises import CHANNEL, Attempt
from warren.sim.publisher import CONFIRM
from warren.wire.frames import content_frames
from warren.wire.method_stream import Heard
from warren.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties, encode_header_payload

if TYPE_CHECKING:
    from warren.sim.cluster.world import ClusterWorld

WINDOW = 20
PAUSE_MS = 400
EXCUSES = ("is down or inaccessible", "could not agree", "partial tx completion", "no queue 'passing")
"""Why a node of a cluster may close the channel of a client that did nothing wrong."""


@dataclass(frozen=True)
class Target:
    """Where messages go: what to name, and the queues that it leads to."""

    exchange: str
    routing_key: str
    queues: tuple[str, ...]


class ClusterClient(Client):
    """One channel, opened again and again."""

    excuses: tuple[str, ...] = EXCUSES

    def __init__(self, world: "ClusterWorld", name: str, topology: list[Method]) -> None:
        super().__init__(world, name, topology)
        self.world: ClusterWorld = world
        self.channel_open = False
        self.runs = 0
        self._open_at_ms = 0

    # -- what a role adds

    def channel_opened(self) -> None:
        """There is a channel; nothing was said on it yet."""

    def forget_channel(self) -> None:
        """The channel is over, and what was said on it with it."""

    def work(self) -> None:
        """Some time has passed, and there is a channel."""

    # -- the channel

    @property
    def who(self) -> str:
        """This run of the channel."""
        return f"{self.name}/{self.runs}"

    def opened(self) -> None:
        self._open_channel()

    def act(self) -> None:
        if self.channel_open:
            self.work()
        elif self.world.now_ms >= self._open_at_ms:
            self._open_channel()

    def channel_ended(self, number: int) -> None:
        self._pause(self.chance.randint(1, PAUSE_MS))
        self._end_run()

    def cut_off(self) -> None:
        self._end_run()

    def close_channel(self) -> None:
        self._end_run()
        # until the answer is here
        self._open_at_ms = self.world.now_ms + 10**9
        self.send(CHANNEL, ChannelClose(reply_code=200, reply_text="enough"))

    def heard(self, heard: Heard) -> None:
        if isinstance(heard.method, ChannelCloseOk):
            self._pause(0)
        elif self.channel_open:
            self.hear(heard)

    def hear(self, heard: Heard) -> None:
        """The node said something on the channel."""

    def _hear(self, heard: Heard) -> None:
        method = heard.method
        self.world.seen[f"node says {method.name}"] += 1
        if isinstance(method, ChannelClose):
            self.world.seen[f"fault {method.reply_code}"] += 1
            if not any(excuse in method.reply_text for excuse in self.excuses):
                text = f"{self.name} was told {method.reply_code} {method.reply_text}"
                self.world.checkers.complain("no fault without cause", text)
        super()._hear(heard)

    def _pause(self, duration_ms: int) -> None:
        self._open_at_ms = self.world.now_ms + duration_ms

    def _open_channel(self) -> None:
        self.runs += 1
        self._open_at_ms = 0
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        self.channel_open = True
        self.channel_opened()

    def _end_run(self) -> None:
        if self.channel_open:
            self.channel_open = False
            self.forget_channel()


class ClusterPublisher(ClusterClient):
    """Publishes to a few targets, and expects an answer for each message, or for each transaction."""

    def __init__(
        self, world: "ClusterWorld", name: str, topology: list[Method], mode: str, targets: list[Target]
    ) -> None:
        super().__init__(world, name, topology)
        self.mode = mode
        self.targets = targets
        self.burst_max = self.chance.choice((1, 3, 8))
        self.large_bodies = self.chance.choice((0.0, 0.05, 0.2))
        self.persistent_share = self.chance.choice((0.5, 1.0))
        self.mandatory_share = 0.5
        self._publish_no = 0
        self._unanswered: dict[int, Attempt] = {}
        self._uncommitted: list[Attempt] = []
        self._committing: deque[list[Attempt]] = deque()

    def done(self) -> bool:
        return self.channel_open and not self._unanswered and not self._uncommitted and not self._committing

    def waiting_for(self) -> str:
        waiting = [attempt.number for attempt in self._unanswered.values()]
        return f"answers for {waiting}, {len(self._committing)} commits; its channel is open: {self.channel_open}"

    def channel_opened(self) -> None:
        self._publish_no = 0
        self.send(CHANNEL, ConfirmSelect() if self.mode == CONFIRM else TxSelect())

    def forget_channel(self) -> None:
        self._unanswered.clear()
        self._committing.clear()
        for attempt in self._uncommitted:
            self.world.promises.withdrawn(attempt)
        self._uncommitted.clear()

    def work(self) -> None:
        if not self.calmed:
            fate = self.chance.random()
            if fate < 0.01:
                self.close_channel()
                return
            if fate < 0.015:
                self._end_run()
                self.say_goodbye()
                return
            for _ in range(self.chance.randint(1, self.burst_max)):
                if len(self._unanswered) + len(self._uncommitted) < WINDOW and len(self._committing) < 3:
                    self.publish(self.chance.choice(self.targets))
        if self._uncommitted and (self.calmed or self.chance.random() < 0.5):
            self._end_transaction()

    def publish(self, target: Target, mandatory: bool | None = None) -> Attempt:
        """Publish one message, whatever the window says."""
        filler_bytes = self.chance.randint(0, 60)
        if self.chance.random() < self.large_bodies:
            filler_bytes = self.chance.choice((3_000, 9_000))
        persistent = self.chance.random() < self.persistent_share
        if mandatory is None:
            mandatory = self.chance.random() < self.mandatory_share
        attempt = self.world.promises.attempt(self, target.queues, persistent, mandatory, filler_bytes)
        header = encode_header_payload(Properties(delivery_mode=2 if persistent else None), len(attempt.body))
        content = content_frames(header, attempt.body, CHANNEL, self.frame_max)
        if self.mode == CONFIRM:
            self._publish_no += 1
            self._unanswered[self._publish_no] = attempt
        else:
            self._uncommitted.append(attempt)
        method = BasicPublish(target.exchange, target.routing_key, mandatory=mandatory)
        self.send(CHANNEL, method, content=content)
        return attempt

    def hear(self, heard: Heard) -> None:
        method = heard.method
        if isinstance(method, BasicAck | BasicNack):
            self._answered(method)
        elif isinstance(method, TxCommitOk):
            for attempt in self._committing.popleft():
                self.world.promises.confirmed(attempt)
        elif isinstance(method, BasicReturn):
            self.world.promises.returned(heard.body)

    def _answered(self, method: BasicAck | BasicNack) -> None:
        last = method.delivery_tag
        numbers = [number for number in self._unanswered if number <= last] if method.multiple else [last]
        for number in numbers:
            attempt = self._unanswered.pop(number, None)
            if attempt is None:
                self.world.checkers.complain("confirms answer publishes", f"{self.who}: {number} answers nothing")
            elif isinstance(method, BasicAck):
                self.world.promises.confirmed(attempt)

    def _end_transaction(self) -> None:
        attempts, self._uncommitted = self._uncommitted, []
        if not self.calmed and self.chance.random() < 0.25:
            for attempt in attempts:
                self.world.promises.withdrawn(attempt)
            self.send(CHANNEL, TxRollback())
        else:
            self._committing.append(attempts)
            self.send(CHANNEL, TxCommit())
