"""A client's machine coupled to a node's core in memory: each reads the bytes that the other sends.

Not here: the core and its world (`core_driver`), a client on sockets (`tests.client`).
"""

from collections.abc import Callable

from tests.support.core_driver import Core
from warren.broker.model.events import BytesReceived, ConnectionDropped
from warren.client.machine.channel import ChannelMachine
from warren.client.machine.connection import ConnectionMachine
from warren.client.machine.events import CallAnswered, ClientEvent
from warren.client.machine.settings import ClientSettings
from warren.wire.methods import Method

Cut = Callable[[bytes], list[bytes]]
"""How one side's bytes are cut into reads of the other."""


def whole(data: bytes) -> list[bytes]:
    return [data]


class Coupled:
    """One connection with both of its ends."""

    def __init__(self, core: Core, settings: ClientSettings | None = None, cut: Cut = whole) -> None:
        self.core = core
        self.link = core.connect()
        self._sent_by_core: list[bytes] = []
        self.link.take = self._sent_by_core.append  # type: ignore[assignment]
        self._cut = cut
        self.machine = ConnectionMachine(settings or ClientSettings(), core.now_ms)
        self.events: list[ClientEvent] = []
        self.run()

    def run(self) -> list[ClientEvent]:
        """Carry bytes to and fro until neither side has any left; the events of the client meanwhile."""
        learned: list[ClientEvent] = []
        for _ in range(10_000):
            sent = self.machine.take_output()
            for piece in self._cut(sent) if sent else []:
                if self.link.number not in self.core.closed:
                    self.core.turn(BytesReceived(self.link.number, piece))
            self.core.settle()
            received, self._sent_by_core[:] = list(self._sent_by_core), []
            for data in received:
                for piece in self._cut(data):
                    learned += self.machine.receive(piece, self.core.now_ms)
                    self.machine.check()
            if not sent and not received:
                self.events += learned
                return learned
        raise AssertionError("the two never come to rest")

    def channel(self) -> ChannelMachine:
        channel, _ = self.machine.open_channel()
        self.run()
        return channel

    def call(self, channel: ChannelMachine, method: Method) -> CallAnswered:
        """The answer; it must have come."""
        ticket = channel.call(method)
        answers = [event for event in self.run() if isinstance(event, CallAnswered) and event.ticket == ticket]
        assert len(answers) == 1, f"{method.name} was not answered"
        return answers[0]

    def lose(self) -> list[ClientEvent]:
        self.core.turn(ConnectionDropped(self.link.number, "gone"))
        return self.machine.lose("gone")
